//! What train.rs uses of weft/weft.h, declared (`raw`) and made safe: a `Comm` and a `Reducer` that are freed where they end, errors as `Result`, and
//! gradients that cannot be written while they are on the wire. Copy it and add what your trainer needs: docs/c.md says what each call does.

use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::{c_int, c_void};
use std::ptr::{null, null_mut};

/// weft.h. A handle is a number in the form of a pointer; options are given as NULL alone, which means all defaults.
pub mod raw {
    use std::os::raw::{c_char, c_double, c_int, c_void};
    pub enum WorldOptions {}
    pub enum ConnectOptions {}
    pub enum ReducerOptions {}
    pub type World = *mut c_void;
    pub type Comm = *mut c_void;
    pub type Stream = *mut c_void;
    pub type Layout = *mut c_void;
    pub type Reducer = *mut c_void;
    pub const F32: c_int = 0;
    pub const HOST: c_int = -1;
    pub const STREAM_INLINE: c_int = 0;
    pub const FROM_RANK_0: c_int = 1;
    pub const EXCHANGE_NOW: c_int = 0;
    pub const USAGE: c_int = 1;
    pub const SYSTEM: c_int = 5;
    pub const NO_DEADLINE: c_double = -1.0;

    #[link(name = "weft")]
    extern "C" {
        pub fn weft_error() -> *const c_char;
        pub fn weft_last_status() -> c_int;
        pub fn weft_exit_code(status: c_int) -> c_int;
        pub fn weft_world_from_environment(options: *const WorldOptions, out: *mut World) -> c_int;
        pub fn weft_world_free(world: World) -> c_int;
        pub fn weft_comm_connect(world: World, options: *const ConnectOptions, out: *mut Comm) -> c_int;
        pub fn weft_comm_rank(comm: Comm) -> c_int;
        pub fn weft_comm_size(comm: Comm) -> c_int;
        pub fn weft_comm_give_up(comm: Comm, kind: c_int, why: *const c_char) -> c_int;
        pub fn weft_comm_free(comm: Comm) -> c_int;
        pub fn weft_stream_create(device: c_int, kind: c_int, out: *mut Stream) -> c_int;
        pub fn weft_stream_synchronize(stream: Stream, seconds: c_double) -> c_int;
        pub fn weft_stream_free(stream: Stream) -> c_int;
        pub fn weft_layout_create(dtype: c_int, out: *mut Layout) -> c_int;
        pub fn weft_layout_add(layout: Layout, name: *const c_char, shape: *const i64, dimensions: c_int, storage: *const c_void) -> c_int;
        pub fn weft_layout_count(layout: Layout, id: c_int) -> i64;
        pub fn weft_layout_free(layout: Layout) -> c_int;
        pub fn weft_sync_initial_values(comm: Comm, layout: Layout, values: *const *mut c_void, device: c_int, how: c_int) -> c_int;
        pub fn weft_reducer_create(comm: Comm, layout: Layout, options: *const ReducerOptions, out: *mut Reducer) -> c_int;
        pub fn weft_reducer_gradient(reducer: Reducer, id: c_int) -> *mut c_void;
        pub fn weft_reducer_begin_step(reducer: Reducer, exchange: c_int) -> c_int;
        pub fn weft_reducer_ready(reducer: Reducer, id: c_int, stream: Stream) -> c_int;
        pub fn weft_reducer_finish_step(reducer: Reducer, stream: Stream) -> c_int;
        pub fn weft_reducer_free(reducer: Reducer) -> c_int;
    }
}

/// One line, and what the program ends with: 42 (do not start it again), 75 (start it again) or 70.
pub struct Error {
    pub message: String,
    kind: c_int,
}

impl Error {
    /// The program's own, about what it was given.
    pub fn usage(message: String) -> Error {
        Error { message, kind: raw::USAGE }
    }
    pub fn exit_code(&self) -> u8 {
        unsafe { raw::weft_exit_code(self.kind) as u8 }
    }
    fn last() -> Error {
        unsafe { Error { message: CStr::from_ptr(raw::weft_error()).to_string_lossy().into_owned(), kind: raw::weft_last_status() } }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.message)
    }
}

fn must(status: c_int) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(Error::last()) }
}

fn text(words: &str) -> CString {
    CString::new(words.replace('\0', " ")).unwrap()
}

/// All ranks. A rank that panics tells the others why they need not wait.
pub struct Comm {
    world: raw::World,
    comm: raw::Comm,
}

impl Comm {
    /// Collective; blocks until all ranks are there. Who this process is, its launcher has said; started alone, it is one rank.
    pub fn connect() -> Result<Comm, Error> {
        let mut made = Comm { world: null_mut(), comm: null_mut() };
        unsafe {
            must(raw::weft_world_from_environment(null(), &mut made.world))?;
            must(raw::weft_comm_connect(made.world, null(), &mut made.comm))?;
        }
        Ok(made)
    }
    pub fn rank(&self) -> usize {
        unsafe { raw::weft_comm_rank(self.comm) as usize }
    }
    pub fn size(&self) -> usize {
        unsafe { raw::weft_comm_size(self.comm) as usize }
    }
    /// This rank cannot go on: operations of the others fail with `error`, which is given back.
    pub fn give_up(&self, error: Error) -> Error {
        unsafe { raw::weft_comm_give_up(self.comm, error.kind, text(&error.message).as_ptr()) };
        error
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        unsafe {
            if std::thread::panicking() && !self.comm.is_null() {
                raw::weft_comm_give_up(self.comm, raw::SYSTEM, text("the program panicked; its standard error says where").as_ptr());
            }
            raw::weft_comm_free(self.comm); // of NULL it does nothing
            raw::weft_world_free(self.world);
        }
    }
}

/// A parameter: its name, its shape, and its values of 32 bits, row by row.
pub struct Parameter {
    pub name: &'static str,
    pub shape: Vec<i64>,
    pub values: Vec<f32>,
}

struct Layout(raw::Layout);

impl Layout {
    fn of(parameters: &[Parameter]) -> Result<Layout, Error> {
        let mut layout = Layout(null_mut());
        unsafe { must(raw::weft_layout_create(raw::F32, &mut layout.0))? };
        for (id, one) in parameters.iter().enumerate() {
            let shape = one.shape.as_ptr();
            let added = unsafe { raw::weft_layout_add(layout.0, text(one.name).as_ptr(), shape, one.shape.len() as c_int, null()) };
            if added < 0 {
                return Err(Error::last());
            }
            let count = unsafe { raw::weft_layout_count(layout.0, id as c_int) };
            assert_eq!(count, one.values.len() as i64, "the values of {} are not of its shape {:?}", one.name, one.shape);
        }
        Ok(layout)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        unsafe { raw::weft_layout_free(self.0) };
    }
}

/// Every rank gets rank 0's parameters. Collective; blocks.
pub fn sync_initial_values(comm: &Comm, parameters: &mut [Parameter]) -> Result<(), Error> {
    let layout = Layout::of(parameters)?;
    let values: Vec<*mut c_void> = parameters.iter_mut().map(|one| one.values.as_mut_ptr() as *mut c_void).collect();
    unsafe { must(raw::weft_sync_initial_values(comm.comm, layout.0, values.as_ptr(), raw::HOST, raw::FROM_RANK_0)) }
}

/// Averages gradients over the ranks, bucket by bucket, beside backward. Its construction and every step are collective.
///
/// WRONG: gradient(id) between ready(id) and finish(): it is on the wire. It panics.
pub struct Reducer<'a> {
    reducer: raw::Reducer,
    stream: raw::Stream,
    counts: Vec<usize>,
    on_the_wire: Vec<bool>,
    _comm: &'a Comm,
}

impl<'a> Reducer<'a> {
    /// `parameters` in the order of forward; their names and shapes count.
    pub fn new(comm: &'a Comm, parameters: &[Parameter]) -> Result<Reducer<'a>, Error> {
        let layout = Layout::of(parameters)?;
        let counts: Vec<usize> = parameters.iter().map(|one| one.values.len()).collect();
        let on_the_wire = vec![false; counts.len()];
        let mut made = Reducer { reducer: null_mut(), stream: null_mut(), counts, on_the_wire, _comm: comm };
        unsafe {
            must(raw::weft_stream_create(raw::HOST, raw::STREAM_INLINE, &mut made.stream))?;
            must(raw::weft_reducer_create(comm.comm, layout.0, null(), &mut made.reducer))?;
        }
        Ok(made)
    }
    pub fn begin(&mut self) -> Result<(), Error> {
        unsafe { must(raw::weft_reducer_begin_step(self.reducer, raw::EXCHANGE_NOW)) }
    }
    /// Where backward writes, until ready(); and where the mean is after finish().
    pub fn gradient(&mut self, id: usize) -> Result<&mut [f32], Error> {
        assert!(!self.on_the_wire[id], "gradient {} is on the wire until finish()", id);
        let at = unsafe { raw::weft_reducer_gradient(self.reducer, id as c_int) } as *mut f32;
        if at.is_null() {
            return Err(Error::last());
        }
        Ok(unsafe { std::slice::from_raw_parts_mut(at, self.counts[id]) })
    }
    /// The gradient is complete; it leaves while the rest of backward runs.
    pub fn ready(&mut self, id: usize) -> Result<(), Error> {
        unsafe { must(raw::weft_reducer_ready(self.reducer, id as c_int, self.stream))? };
        self.on_the_wire[id] = true;
        Ok(())
    }
    /// Blocks until the means are there.
    pub fn finish(&mut self) -> Result<(), Error> {
        unsafe {
            must(raw::weft_reducer_finish_step(self.reducer, self.stream))?;
            must(raw::weft_stream_synchronize(self.stream, raw::NO_DEADLINE))?;
        }
        self.on_the_wire.fill(false);
        Ok(())
    }
}

impl Drop for Reducer<'_> {
    fn drop(&mut self) {
        unsafe {
            raw::weft_reducer_free(self.reducer);
            raw::weft_stream_free(self.stream);
        }
    }
}
