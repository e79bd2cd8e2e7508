//! A file that tells of a machine's topology, whichever kind it is.

use super::{nccl_topo, smi_topo};
use crate::{diagnostic::Diagnostic, topology::Machine};

/// Reads the text of `nvidia-smi topo -m` or an NCCL topology file; which one it is shows in its first character. The second part
/// is what is odd in it.
///
/// # Errors
/// The line at which it shows that the text is neither, or holds no machine, with the next step.
pub fn parse(text: &str, file: &str) -> Result<(Machine, Vec<Diagnostic>), Diagnostic> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('<') { nccl_topo::parse(text, file) } else { smi_topo::parse(text, file) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kind_is_found_by_itself() {
        let table = "\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n";
        let xml = "\u{feff}\n <?xml version=\"1.0\"?><system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x030200\"/></cpu></system>";
        for (text, gpus, hcas) in [(table, 1, 1), (xml, 1, 0)] {
            let (machine, odd) = parse(text, "f").unwrap();
            assert_eq!((machine.gpus.len(), machine.hcas.len(), odd), (gpus, hcas, vec![]), "{text}");
        }
        let message = parse("", "f").unwrap_err().to_string();
        assert!(message.starts_with("f:1: no table of GPUs"), "{message}");
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC{0,200}|[<>/=\"a-z0-9: \\n\\t]{0,200}") {
            drop(parse(&text, "f"));
        }
    }
}
