//! Devices, ports and addresses.

use gdrtune_node::verbs::{Device, Family, GidKind, LinkLayer, PortState, Verbs, VerbsError};

#[test]
#[ignore = "runs in the guest"]
fn devices_are_listed_and_found() {
    let verbs = Verbs::open().unwrap();
    let mut names = verbs.devices().unwrap();
    names.sort();
    assert_eq!(names, ["rxe_r1a", "rxe_r1b", "rxe_r2a", "rxe_r2b"]);
    let error = Device::open(&verbs, "mlx5_0").unwrap_err();
    assert!(matches!(&error, VerbsError::NoDevice { known, .. } if known.len() == 4), "{error}");
}

#[test]
#[ignore = "runs in the guest"]
fn ports_have_addresses() {
    let verbs = Verbs::open().unwrap();
    for (name, address) in [("rxe_r1a", "10.99.1.1"), ("rxe_r1b", "10.99.1.2"), ("rxe_r2b", "10.99.2.2")] {
        let device = Device::open(&verbs, name).unwrap();
        let (port, gid) = device.usable_port(1, Family::V4).unwrap();
        assert_eq!((port.state, port.link_layer), (PortState::ACTIVE, LinkLayer::Ethernet));
        assert_eq!(port.active_mtu, 4096, "the pairs have 4200 bytes");
        assert_eq!((gid.kind, gid.ipv4()), (GidKind::RoceV2, Some(address.parse().unwrap())));
        assert!(gid.net.starts_with('r'), "{gid:?}");
        let (_, other) = device.usable_port(1, Family::V6).unwrap();
        // An address that is valid beyond the link goes before the family.
        assert_eq!(gid.gid, other.gid);
    }
    let device = Device::open(&verbs, "rxe_r1a").unwrap();
    let error = device.port(7).unwrap_err();
    assert!(error.to_string().starts_with("ibv_query_port failed for rxe_r1a port 7"), "{error}");
}
