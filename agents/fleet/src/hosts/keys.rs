//! What a host file says of the hosts of a line, behind their names: `slots=4 max_slots=8 port=2222`.

use gdrtune_profiles::nearest::nearest;

use super::{
    expand::Fault,
    parse::{check_user, parse_slots},
};

/// The words before `=`, ours first. The others are those of Open MPI's host files (`prte-hosts(5)`), which say more that
/// does not concern us.
const KEYS: [(&str, Key); 10] = [
    ("slots", Key::Slots),
    ("ranks", Key::Slots),
    ("user", Key::User),
    ("port", Key::Port),
    ("max_slots", Key::MaxSlots),
    ("max-slots", Key::MaxSlots),
    ("slots_max", Key::MaxSlots),
    ("count", Key::Slots),
    ("username", Key::User),
    ("user-name", Key::User),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Slots,
    MaxSlots,
    User,
    Port,
}

/// What was said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) slots: Option<u32>,
    max_slots: Option<u32>,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
}

impl Keys {
    /// Takes one word in.
    pub(super) fn take(&mut self, word: &str) -> Result<(), Fault> {
        let Some((name, value)) = word.split_once('=') else {
            let expected = "slots=N, user=NAME or port=N, or a comma before another host";
            return Err(Fault::new(0, format!("{word:?} after the hosts"), expected));
        };
        let Some(&(_, key)) = KEYS.iter().find(|(known, _)| *known == name) else {
            let near = nearest(name, KEYS.iter().map(|(known, _)| *known));
            let expected = near.map_or("slots=, user= or port=".to_owned(), |near| format!("{near}="));
            return Err(Fault::new(0, format!("unknown word {name:?}"), expected));
        };
        let at = name.chars().count() + 1;
        let is_new = match key {
            Key::Slots => self.slots.replace(parse_slots(value, at)?).is_none(),
            Key::MaxSlots => self.max_slots.replace(parse_slots(value, at)?).is_none(),
            Key::User => self.user.replace(check_user(value).map_err(|fault| fault.moved(at))?).is_none(),
            Key::Port => self.port.replace(parse_port(value, at)?).is_none(),
        };
        match (is_new, self.slots, self.max_slots) {
            (false, ..) => Err(Fault::new(0, format!("{name}= given twice"), "it once")),
            (true, Some(slots), Some(most)) if most < slots => {
                Err(Fault::new(0, format!("{slots} slots of at most {most}"), "slots within max_slots"))
            }
            _ => Ok(()),
        }
    }
}

fn parse_port(text: &str, offset: usize) -> Result<u16, Fault> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.then(|| text.parse().ok()).flatten().filter(|port| *port > 0);
    port.ok_or_else(|| Fault::new(offset, format!("{text:?} as port"), "a number from 1 to 65535"))
}
