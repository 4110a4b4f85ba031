//! Topic names.

use std::sync::Arc;

/// Prefix of all channel topics.
pub(crate) const TOPIC_PREFIX: &str = "realtime:";

/// Key of a topic. The private and the public topic of the same name are distinct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TopicKey {
    /// Name without `realtime:`.
    pub(crate) name: Arc<str>,
    pub(crate) is_private: bool,
}

impl TopicKey {
    pub(crate) fn new(name: &str, is_private: bool) -> Self {
        Self { name: name.into(), is_private }
    }

    /// The name as it appears in frames.
    pub(crate) fn full_name(&self) -> String {
        format!("{TOPIC_PREFIX}{}", self.name)
    }
}
