//! Recomputes the indexes over storage objects, and names the first that differs.

use super::{StorageObjects, VolumeEntry, lookup};
use crate::state::equal;
use crate::storage::PodVolumes;
use std::collections::BTreeMap;

impl StorageObjects {
    /// Rebuilds every index from the objects and the volumes of placed pods; the error names the first that differs.
    pub(crate) fn check_consistency<'a>(&self, placed: impl Iterator<Item = &'a PodVolumes>) -> Result<(), String> {
        let mut fresh = Self::default();
        #[expect(clippy::iter_over_hash_type, reason = "the order of volumes does not matter to the indexes")]
        for VolumeEntry { api, assumed } in self.volumes.values() {
            fresh.put_volume(VolumeEntry { api: api.clone(), assumed: assumed.clone() });
        }
        placed.for_each(|volumes| fresh.pod_placed(volumes));
        let flat = |objects: &Self| -> BTreeMap<String, usize> {
            let users = objects.users.iter();
            users.flat_map(|(ns, names)| names.iter().map(move |(n, users)| (format!("{ns}/{n}"), *users))).collect()
        };
        equal("users of claims", flat(self), flat(&fresh))?;
        equal("free volumes", &self.free, &fresh.free)?;
        equal("volumes by claim", &self.referring, &fresh.referring)?;

        let filed = self.capacities.iter().flat_map(|(class, list)| list.iter().map(move |(key, it)| (class, key, it)));
        let mut count = 0;
        for (class, (namespace, name), capacity) in filed {
            count += 1;
            let known = lookup(&self.capacity_classes, namespace, name);
            equal(
                &format!("the class of capacity {namespace}/{name}"),
                (known, &capacity.class),
                (Some(class), class),
            )?;
        }
        equal("capacities", self.capacity_classes.values().map(|names| names.len()).sum(), count)?;
        let filed =
            self.attachments.iter().flat_map(|(node, list)| list.iter().map(move |(name, it)| (node, name, it)));
        let mut count = 0;
        for (node, name, attachment) in filed {
            count += 1;
            let known = self.attachment_nodes.get(name);
            equal(&format!("the node of attachment {name}"), (known, &attachment.node), (Some(node), node))?;
        }
        equal("attachments", self.attachment_nodes.len(), count)
    }
}
