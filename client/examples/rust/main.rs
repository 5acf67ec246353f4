// Farlook from Rust, over the C library. bindgen makes the declarations from the header:
//
//     bindgen --size_t-is-usize $(pkg-config --variable=includedir farlook)/farlook.h -o farlook.rs
//     rustc main.rs -o hello $(pkg-config --libs farlook) && ./hello shm:///run/farlook/kv
#[allow(non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code)]
mod farlook;

use farlook::{farlook_client, farlook_close, farlook_connect, farlook_error, farlook_get, farlook_put};
use std::ffi::{CStr, CString};
use std::os::raw::{c_int, c_void};
use std::ptr::{null, null_mut};

// A client belongs to one thread at a time: it may be sent to another (Send), but not be shared (no Sync).
struct Client(*mut farlook_client);
unsafe impl Send for Client {}

fn done(code: c_int) -> Result<(), String> {
    if code == 0 { return Ok(()); }
    Err(unsafe { CStr::from_ptr(farlook_error()) }.to_string_lossy().into_owned())
}

impl Client {
    fn connect(address: &str) -> Result<Client, String> {
        let address = CString::new(address).map_err(|error| error.to_string())?;
        let mut client = null_mut();
        done(unsafe { farlook_connect(address.as_ptr(), null(), &mut client) })?;
        Ok(Client(client))
    }
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<u64, String> {
        let mut version = 0;
        done(unsafe {
            farlook_put(self.0, key.as_ptr() as *const c_void, key.len(), value.as_ptr() as *const c_void, value.len(), null(), &mut version)
        })?;
        Ok(version)
    }
    fn get<'a>(&mut self, key: &[u8], buffer: &'a mut [u8]) -> Result<&'a [u8], String> {
        let mut bytes = 0;
        done(unsafe {
            farlook_get(self.0, key.as_ptr() as *const c_void, key.len(), null(), buffer.as_mut_ptr() as *mut c_void, buffer.len(), &mut bytes, null_mut())
        })?;
        Ok(&buffer[..bytes])
    }
}
impl Drop for Client {
    fn drop(&mut self) { unsafe { farlook_close(self.0) } }
}

fn main() -> Result<(), String> {
    let mut client = Client::connect(&std::env::args().nth(1).ok_or("usage: hello ADDRESS, as shm:///run/farlook/kv")?)?;
    let version = client.put(b"greeting from Rust", b"hello, world")?;
    let mut buffer = [0; 64];
    let value = client.get(b"greeting from Rust", &mut buffer)?;
    println!("{} (version {})", String::from_utf8_lossy(value), version);
    Ok(())
}
