// Farlook from Rust, over the C library. The declarations are those of farlook.h that are used here; bindgen makes all:
//
//     rustc main.rs -o hello $(pkg-config --libs farlook) && ./hello shm:///run/farlook/kv
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::{null, null_mut};

#[link(name = "farlook")]
extern "C" {
    fn farlook_connect(address: *const c_char, options: *const c_void, client: *mut *mut c_void) -> c_int;
    fn farlook_close(client: *mut c_void);
    fn farlook_error() -> *const c_char;
    fn farlook_put(client: *mut c_void, key: *const u8, key_bytes: usize, value: *const u8, value_bytes: usize,
                   options: *const c_void, version: *mut u64) -> c_int;
    fn farlook_get(client: *mut c_void, key: *const u8, key_bytes: usize, options: *const c_void, buffer: *mut u8,
                   buffer_bytes: usize, value_bytes: *mut usize, version: *mut u64) -> c_int;
}

// A client belongs to one thread at a time: it may be sent to another (Send), and not be shared (no Sync).
struct Client(*mut c_void);
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
            farlook_put(self.0, key.as_ptr(), key.len(), value.as_ptr(), value.len(), null(), &mut version)
        })?;
        Ok(version)
    }
    fn get<'a>(&mut self, key: &[u8], buffer: &'a mut [u8]) -> Result<&'a [u8], String> {
        let mut bytes = 0;
        done(unsafe {
            farlook_get(self.0, key.as_ptr(), key.len(), null(), buffer.as_mut_ptr(), buffer.len(), &mut bytes, null_mut())
        })?;
        Ok(&buffer[..bytes])
    }
}
impl Drop for Client {
    fn drop(&mut self) { unsafe { farlook_close(self.0) } }
}

fn main() -> Result<(), String> {
    let mut client = Client::connect(&std::env::args().nth(1).ok_or("say an address")?)?;
    let version = client.put(b"greeting from Rust", b"hello, world")?;
    let mut buffer = [0; 64];
    let value = client.get(b"greeting from Rust", &mut buffer)?;
    println!("{} (version {})", String::from_utf8_lossy(value), version);
    Ok(())
}
