//! Why a variable is in a profile, or is not.

use gdrtune_profiles::{
    knob::{self, Knob as Catalogued},
    profile::EnvSetting,
};

use super::{Story, Subject};
use crate::event::Knob;

/// What became of one value in the search.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueTried {
    /// The value; none is unset.
    pub value: Option<String>,
    /// Environments with it that were tried.
    pub environments: u32,
    /// The best of their scores: best time over default time by the run's objective.
    pub best_score: Option<f64>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingAnswer<'a> {
    /// The variable.
    pub name: &'a str,
    /// The profile's setting.
    pub setting: Option<&'a EnvSetting>,
    /// Whether it is the profile's only one, so that its evidence is that of the whole environment.
    pub is_alone: bool,
    /// What the catalogue says of the variable.
    pub knob: Option<&'static Catalogued>,
    /// Values that the search had; empty where it did not vary it.
    pub values: Vec<ValueTried>,
    /// What the search learned of it.
    pub importance: Option<&'a Knob>,
    /// What the A/B said where it was left out, in sentences.
    pub left_out: Vec<&'a str>,
    /// Why it was not searched, in sentences.
    pub not_searched: Vec<&'a str>,
    /// What the site sets, and on which nodes.
    pub site: Vec<(&'a str, &'a str)>,
}

/// Answers for one variable. `None` where neither the profile, nor its run, nor the catalogue knows it.
pub fn setting<'a>(subject: Subject<'a>, name: &'a str) -> Option<SettingAnswer<'a>> {
    let story = subject.story;
    let has_name = |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name);
    let lines = |of: fn(&Story) -> &Vec<String>| {
        let all = story.into_iter().flat_map(of).map(String::as_str);
        all.filter(|line| has_name(line)).collect::<Vec<&str>>()
    };
    let values = story.map(|story| values(story, name)).unwrap_or_default();
    let mut left_out = lines(|story| &story.left_out);
    if !values.is_empty() {
        // Of several settings that did not pass together none is named.
        let all = story.into_iter().flat_map(|story| &story.left_out).map(String::as_str);
        left_out.extend(all.filter(|line| line.contains("environment: ") && !has_name(line)));
    }
    let site = story.into_iter().flat_map(|story| &story.site);
    let answer = SettingAnswer {
        name,
        setting: subject.profile.env.iter().find(|setting| setting.name == name),
        is_alone: subject.profile.env.len() == 1,
        knob: knob::knob(name),
        values,
        importance: story.and_then(|story| story.knobs.iter().find(|knob| knob.name == name)),
        left_out,
        not_searched: lines(|story| &story.not_searched),
        site: site.filter_map(|(hosts, set)| Some((hosts.as_str(), set.get(name)?))).collect(),
    };
    let is_known = answer.setting.is_some() || answer.knob.is_some() || !answer.values.is_empty();
    (is_known || !answer.site.is_empty()).then_some(answer)
}

fn values(story: &Story, name: &str) -> Vec<ValueTried> {
    let Some(values) = story.dimensions.get(name) else { return Vec::new() };
    let tried = |value: &Option<String>| {
        let with = || story.environments.iter().filter(|tried| tried.environment.get(name) == value.as_deref());
        let best_score = with().filter_map(|tried| tried.score).min_by(f64::total_cmp);
        ValueTried { value: value.clone(), environments: with().count() as u32, best_score }
    };
    values.iter().map(tried).collect()
}
