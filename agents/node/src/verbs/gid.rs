//! GIDs of a port: its addresses. Read from sysfs, which every kernel has and needs no call.

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
};

use super::{VerbsError, port::LinkLayer};

/// An address of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// Its place in the port's table.
    pub index: u8,
    /// The address.
    pub gid: Ipv6Addr,
    /// What it is used with.
    pub kind: GidKind,
    /// The network device that it belongs to; empty on InfiniBand.
    pub net: String,
}

/// What a GID is used with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidKind {
    /// InfiniBand.
    Ib,
    /// RoCE version 1: Ethernet frames, no routers.
    RoceV1,
    /// RoCE version 2: UDP.
    RoceV2,
}

/// Family of the address that a RoCE GID is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// An IPv4 address, mapped.
    #[default]
    V4,
    /// An IPv6 address.
    V6,
}

impl GidEntry {
    /// Its IPv4 address, where it is a mapped one.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.gid.to_ipv4_mapped()
    }

    /// Lower is better: RoCE v2 before v1, addresses that are valid beyond the link, the wanted family, the lower index.
    fn rank(&self, family: Family) -> (bool, bool, bool, u8) {
        let is_v4 = self.ipv4().is_some();
        let is_link_local =
            self.gid.is_unicast_link_local() || self.ipv4().is_some_and(|address| address.is_link_local());
        (self.kind != GidKind::RoceV2, is_link_local, is_v4 != (family == Family::V4), self.index)
    }
}

/// The address to use: on RoCE the best by kind, reach and family; on InfiniBand the first.
pub fn choose_gid(entries: &[GidEntry], layer: LinkLayer, family: Family) -> Option<&GidEntry> {
    match layer {
        LinkLayer::InfiniBand => entries.iter().min_by_key(|entry| entry.index),
        LinkLayer::Ethernet => entries.iter().min_by_key(|entry| entry.rank(family)),
    }
}

/// Every address of a port that is set, from the kernel's folder of adapters `root` (see [`super::SYSFS`]).
///
/// # Errors
/// [`VerbsError::Sysfs`] where the table cannot be read.
pub fn read_gids(root: &Path, device: &str, port: u8, layer: LinkLayer) -> Result<Vec<GidEntry>, VerbsError> {
    let folder = root.join(device).join("ports").join(port.to_string());
    let table = folder.join("gids");
    let failed = |source: io::Error| VerbsError::Sysfs { path: table.display().to_string(), source };
    let names = fs::read_dir(&table).map_err(failed)?;
    let mut found: Vec<GidEntry> = names
        .filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|index: u8| {
            let text = fs::read_to_string(table.join(index.to_string())).ok()?;
            let gid: Ipv6Addr = text.trim().parse().ok()?;
            // On InfiniBand a table's unset places have the subnet's prefix and no port.
            let is_set = !gid.is_unspecified() && gid.segments()[4..] != [0; 4];
            // An unset place's type cannot be read (EINVAL).
            let attribute = |name: &str| {
                let path = folder.join("gid_attrs").join(name).join(index.to_string());
                fs::read_to_string(path).unwrap_or_default().trim().to_owned()
            };
            let kind = match layer {
                LinkLayer::InfiniBand => GidKind::Ib,
                LinkLayer::Ethernet if attribute("types") == "RoCE v2" => GidKind::RoceV2,
                LinkLayer::Ethernet => GidKind::RoceV1,
            };
            is_set.then(|| GidEntry { index, gid, kind, net: attribute("ndevs") })
        })
        .collect();
    found.sort_by_key(|entry| entry.index);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u8, gid: &str, kind: GidKind) -> GidEntry {
        GidEntry { index, gid: gid.parse().unwrap(), kind, net: String::new() }
    }

    #[test]
    fn roce_takes_version_2_and_the_wanted_family() {
        use GidKind::{RoceV1, RoceV2};
        let usual = [
            entry(0, "fe80::5054:ff:fe00:101", RoceV1),
            entry(1, "fe80::5054:ff:fe00:101", RoceV2),
            entry(2, "::ffff:10.1.2.3", RoceV1),
            entry(3, "::ffff:10.1.2.3", RoceV2),
            entry(4, "2001:db8::7", RoceV2),
        ];
        let pick = |entries: &[GidEntry], family| choose_gid(entries, LinkLayer::Ethernet, family).map(|e| e.index);
        assert_eq!(pick(&usual, Family::V4), Some(3));
        assert_eq!(pick(&usual, Family::V6), Some(4));
        assert_eq!(pick(&usual[..2], Family::V4), Some(1), "link-local is better than version 1");
        assert_eq!(pick(&usual[..1], Family::V4), Some(0));
        assert_eq!(pick(&[usual[1].clone(), usual[4].clone()], Family::V4), Some(4), "reach goes before family");
        assert_eq!(pick(&[entry(5, "::ffff:169.254.3.4", RoceV2), usual[4].clone()], Family::V4), Some(4));
        assert_eq!(pick(&[], Family::V4), None);
        let ib = [entry(0, "fe80::1:2:3:4", GidKind::Ib), entry(1, "fec0::1:2:3:4", GidKind::Ib)];
        assert_eq!(choose_gid(&ib, LinkLayer::InfiniBand, Family::V6).map(|e| e.index), Some(0));
    }

    #[test]
    fn the_table_is_read_without_its_unset_places() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("mlx5_0/ports/1");
        for folder in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
            fs::create_dir_all(port.join(folder)).unwrap();
        }
        for (index, gid, kind) in [
            ("0", "fe80:0000:0000:0000:5054:00ff:fe00:0101", "IB/RoCE v1"),
            ("1", "0000:0000:0000:0000:0000:ffff:0a63:0102", "RoCE v2"),
            ("2", "0000:0000:0000:0000:0000:0000:0000:0000", ""),
            ("3", "fe80:0000:0000:0000:0000:0000:0000:0000", ""),
        ] {
            fs::write(port.join("gids").join(index), format!("{gid}\n")).unwrap();
            if !kind.is_empty() {
                fs::write(port.join("gid_attrs/types").join(index), format!("{kind}\n")).unwrap();
                fs::write(port.join("gid_attrs/ndevs").join(index), "eth1\n").unwrap();
            }
        }
        let found = read_gids(root.path(), "mlx5_0", 1, LinkLayer::Ethernet).unwrap();
        assert_eq!(
            found.iter().map(|entry| (entry.index, entry.kind)).collect::<Vec<_>>(),
            [(0, GidKind::RoceV1), (1, GidKind::RoceV2)]
        );
        assert_eq!(found[1].ipv4(), Some(Ipv4Addr::new(10, 99, 1, 2)));
        assert_eq!(found[1].net, "eth1");
        let ib = read_gids(root.path(), "mlx5_0", 1, LinkLayer::InfiniBand).unwrap();
        assert!(ib.iter().all(|entry| entry.kind == GidKind::Ib));
        assert!(matches!(read_gids(root.path(), "mlx5_9", 1, LinkLayer::Ethernet), Err(VerbsError::Sysfs { .. })));
    }
}
