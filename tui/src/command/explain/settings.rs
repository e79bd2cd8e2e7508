//! A variable in words, and all of a profile.

use gdrtune_profiles::profile::{Class, EnvSetting};
use gdrtune_session::{
    event::{Knob, KnobEffect},
    explain::{SettingAnswer, ValueTried},
};

use super::{Explained, Page};
use crate::{
    command::page::{evidence, own_choice},
    ui::text::count,
};

/// The whole page about one.
pub(super) fn setting(explained: &Explained<'_>, answer: &SettingAnswer<'_>) -> String {
    let mut page = Page::default();
    match answer.setting {
        Some(setting) => page.line(&format!("{}={}", setting.name, setting.value)),
        None => page.line(&format!("{}: not set by this profile", answer.name)),
    }
    explained.head(&mut page);
    page.line("");
    if let Some(knob) = answer.knob {
        page.item("what it is", knob.help);
    }
    match answer.setting {
        Some(setting) => set(explained, setting, answer.is_alone, &mut page),
        None => page.item("why not", &unset_words(explained, answer)),
    }
    for (hosts, value) in &answer.site {
        page.item("site", &format!("sets it to {value} on {hosts}, which the default arm had"));
    }
    if let Some(knob) = answer.importance {
        page.item("search", &importance_words(knob));
    }
    match answer.values.as_slice() {
        [only] => page.item(
            if answer.importance.is_none() { "search" } else { "" },
            &format!(
                "all of it ran with {}, pinned or the only value of the space: nothing was searched without it",
                only.value.as_ref().map_or_else(|| "it unset".to_owned(), |value| format!("{}={value}", answer.name))
            ),
        ),
        several => several.iter().for_each(|tried| page.item("", &value_words(tried))),
    }
    for sentence in &answer.left_out {
        page.item("left out", sentence);
    }
    for sentence in &answer.not_searched {
        page.item("", sentence);
    }
    page.into_text()
}

fn set(explained: &Explained<'_>, setting: &EnvSetting, is_alone: bool, page: &mut Page) {
    if setting.class == Class::Debugging {
        page.item("class", "debugging: NVIDIA's manual says not to keep such; it ships on the evidence below alone");
    }
    if !setting.why.is_empty() {
        page.item("value", &setting.why);
    }
    let words = match (setting.speedup, is_alone) {
        (Some(speedup), true) => format!("over all sizes against the defaults: {}", evidence(&speedup)),
        (Some(speedup), false) => {
            format!("all settings against all but this one (ablation), over all sizes: {}", evidence(&speedup))
        }
        (None, _) if explained.profile().run.unverified => "none: nothing was verified yet".to_owned(),
        (None, _) => "it was not measured alone: the settings passed as a whole".to_owned(),
    };
    page.item("evidence", &words);
}

fn unset_words(explained: &Explained<'_>, answer: &SettingAnswer<'_>) -> String {
    let default = format!(
        "jobs keep what their site sets, or else {}",
        own_choice(explained.profile().run.engine).replace("choice", "default")
    );
    let why = match explained.story {
        None => "whether it was tried is in the run's store, which is not here",
        Some(_) if !answer.left_out.is_empty() => "it was tried and did not earn its place",
        Some(story) if !answer.values.is_empty() && !story.is_decided => "the run has not decided on it",
        // Of a single value, the search cannot prefer another one.
        Some(_) if answer.values.len() == 1 => "it had one value in the search, and nothing that came of that ships",
        Some(_) if !answer.values.is_empty() => {
            "it was searched, and no value of it is among what the search took for best"
        }
        Some(_) => "it was not searched",
    };
    format!("{why}; {default}")
}

fn importance_words(knob: &Knob) -> String {
    let name = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
    let effect = match knob.effect {
        KnobEffect::Mattered => "it mattered",
        KnobEffect::None => "it did next to nothing",
        KnobEffect::Unknown => "what it did cannot be told",
    };
    format!(
        "{effect}: {} over {} is {:.2}x (two deviations: {:.2} to {:.2})",
        name(&knob.best),
        name(&knob.worst),
        knob.factor,
        knob.low,
        knob.high
    )
}

fn value_words(tried: &ValueTried) -> String {
    let value = tried.value.as_deref().unwrap_or("unset");
    let environments = count(u64::from(tried.environments), "environment");
    match tried.best_score {
        _ if tried.environments == 0 => format!("{value}: not tried"),
        Some(score) => {
            format!("{value}: in {environments}, best {:.1} % of the defaults' time", score * 100.0)
        }
        None => format!("{value}: in {environments}, none of which could be scored"),
    }
}

/// All of the profile, and an empty line.
pub(super) fn list(explained: &Explained<'_>, page: &mut Page) {
    let settings = &explained.profile().env;
    if settings.is_empty() {
        page.line("settings: none");
    }
    for setting in settings {
        page.line(&format!("{}={}", setting.name, setting.value));
        let speedup = setting.speedup.as_ref().map_or_else(|| "not measured alone".to_owned(), evidence);
        page.item("", &speedup);
    }
    page.line("");
}
