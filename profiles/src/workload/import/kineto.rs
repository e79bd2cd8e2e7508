//! Traces of `PyTorch`'s profiler in Chrome's format, as Kineto writes them (`libkineto/src/output_json.cpp`).
//!
//! Every call is a `record_param_comms` of the CPU, with what was called in its arguments (`torch/csrc/profiler/util.cpp`,
//! `saveNcclMeta`; `PyTorch` 2.1 and later). Its kernel has them once more, which counts only in a trace without the CPU. Steps are
//! marked by `ProfilerStep#N`, where the job calls `profiler.step()`.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    io::BufRead,
};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use super::{
    ImportError,
    json::{Each, malformed, rank_count, word},
    names::{Operation, operation, torch_type_bytes},
    tally::{Label, Reason, Tally},
};
use crate::vocab::Collective;

const STEP: &str = "ProfilerStep#";
const CALL: &str = "record_param_comms";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    name: Value,
    cat: Value,
    ts: Value,
    args: Value,
}

/// A call, in the trace's time.
struct Call {
    at_us: f64,
    group: usize,
    collective: Collective,
    bytes: u64,
}

#[derive(Default)]
struct Trace {
    groups: Vec<Label>,
    numbers: HashMap<(String, String), usize>,
    /// Of the CPU, and of kernels.
    calls: [Vec<Call>; 2],
    /// What is no call that counts: reason, and an example.
    left_out: [Vec<(Reason, String)>; 2],
    steps: BTreeSet<String>,
}

/// Reads a trace.
///
/// # Errors
/// The reader's, and what is no such trace.
pub(super) fn read(tally: &mut Tally, file: &str, reader: impl BufRead) -> Result<(), ImportError> {
    let mut trace = Trace::default();
    let mut json = serde_json::Deserializer::from_reader(reader);
    let mut each = |event| trace.take(event);
    Document { each: &mut each }.deserialize(&mut json).map_err(|error| malformed(file, error))?;
    json.end().map_err(|error| malformed(file, error))?;
    let has_cpu = !trace.calls[0].is_empty() || !trace.left_out[0].is_empty();
    if !has_cpu && trace.calls[1].is_empty() && trace.left_out[1].is_empty() {
        let cause = format!(
            "no {CALL} and no kernel with a \"Collective name\": profile with PyTorch 2.1 or later and the NCCL backend, \
             activities CPU and CUDA, over some steps with profiler.step()"
        );
        return Err(ImportError::NotRead { file: file.to_owned(), cause });
    }
    let origin = usize::from(!has_cpu);
    if !has_cpu {
        tally.note("calls were counted by kernels, as the trace has no CPU activities".to_owned());
    }
    trace.hand_over(tally, file, origin);
    Ok(())
}

impl Trace {
    fn take(&mut self, event: Event) {
        let (Value::String(name), Value::Object(args)) = (&event.name, &event.args) else {
            if let Value::String(name) = event.name {
                self.mark(&name, &event.cat);
            }
            return;
        };
        self.mark(name, &event.cat);
        let is_call = name == CALL;
        if !is_call && (event.cat.as_str() != Some("kernel") || !args.contains_key("Collective name")) {
            return;
        }
        let origin = usize::from(!is_call);
        let called = args.get("Collective name").map(word).unwrap_or_default();
        let collective = match operation(&called) {
            Some(Operation::Collective(collective)) => collective,
            Some(Operation::Bookkeeping) => return,
            Some(Operation::PointToPoint) => return self.left_out[origin].push((Reason::PointToPoint, called)),
            None if called.is_empty() => return self.left_out[origin].push((Reason::NoSize, name.clone())),
            None => return self.left_out[origin].push((Reason::OtherCollective, called)),
        };
        let number = |key: &str| args.get(key).and_then(Value::as_u64);
        let ranks = args.get("Process Group Ranks").cloned().unwrap_or_default();
        let size = number("Group size").and_then(|size| u32::try_from(size).ok()).or_else(|| rank_count(&ranks));
        let (Some(input), Some(size)) = (number("In msg nelems"), size.filter(|size| 0 < *size)) else {
            return self.left_out[origin].push((Reason::NoSize, called));
        };
        let data_type = args.get("dtype").map(word).unwrap_or_default();
        let Some(element) = torch_type_bytes(&data_type) else {
            return self.left_out[origin].push((Reason::UnknownType, format!("{data_type} of {called}")));
        };
        let elements = match collective {
            Collective::AllGather => {
                number("Out msg nelems").filter(|out| 0 < *out).or_else(|| input.checked_mul(u64::from(size)))
            }
            _ => Some(input),
        };
        let Some(bytes) = elements.and_then(|elements| elements.checked_mul(element)) else {
            return self.left_out[origin].push((Reason::Broken, called));
        };
        if bytes == 0 {
            return self.left_out[origin].push((Reason::Empty, called));
        }
        let group = self.group(args, &ranks, size);
        self.calls[origin].push(Call { at_us: time(&event.ts), group, collective, bytes });
    }

    /// A step is marked for the CPU, and once more for the GPU.
    fn mark(&mut self, name: &str, category: &Value) {
        if name.starts_with(STEP) && category.as_str() != Some("gpu_user_annotation") {
            self.steps.insert(name.to_owned());
        }
    }

    fn group(&mut self, args: &serde_json::Map<String, Value>, ranks: &Value, size: u32) -> usize {
        let text = |key: &str| args.get(key).map(word).unwrap_or_default();
        let (name, ranks) = (text("Process Group Name"), word(ranks));
        let next = self.groups.len();
        let number = *self.numbers.entry((name.clone(), ranks.clone())).or_insert(next);
        if number == next {
            let id = if ranks.is_empty() { String::new() } else { format!("{name} {ranks}") };
            let about = text("Process Group Description");
            let known = matches!(about.as_str(), "" | "undefined");
            self.groups.push(Label { id, name: if known { name } else { about }, ranks: size });
        }
        number
    }

    fn hand_over(mut self, tally: &mut Tally, file: &str, origin: usize) {
        let owner = tally.owner(file);
        let streams: Vec<_> = self.groups.into_iter().map(|label| tally.stream(owner, label)).collect();
        // Events are sorted by thread; the order of the calls is that of their times.
        self.calls[origin].sort_by(|a, b| a.at_us.total_cmp(&b.at_us));
        for Call { group, collective, bytes, .. } in &self.calls[origin] {
            if let Some(stream) = streams.get(*group) {
                tally.call(*stream, *collective, *bytes);
            }
        }
        for (reason, what) in self.left_out[origin].drain(..) {
            tally.leave_out(reason, 1, || format!("{what} in {file}"));
        }
        if !self.steps.is_empty() {
            tally.mark_steps(self.steps.len() as u64);
        }
    }
}

/// Microseconds; older traces have whole ones.
fn time(value: &Value) -> f64 {
    match value {
        Value::String(text) => text.parse().unwrap_or_default(),
        other => other.as_f64().unwrap_or_default(),
    }
}

/// The document: an object with `traceEvents`, or the events alone.
struct Document<'a, F> {
    each: &'a mut F,
}

impl<'de, F: FnMut(Event)> DeserializeSeed<'de> for Document<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Event)> Visitor<'de> for Document<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace: an object with traceEvents, or an array of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if key == "traceEvents" {
                fields.next_value_seed(Each::<Event, F>::new(self.each))?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<(), A::Error> {
        Each::<Event, F>::new(self.each).visit_seq(elements)
    }
}
