//! stub
#[derive(Debug, Default)] pub struct DraObjects;
impl DraObjects { pub fn serves_extended_resource(&self, _: &str) -> bool { false } }
