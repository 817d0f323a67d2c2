//! Rank 1 writes a gradient that is on the wire: that panics, and rank 0, which waits for it, hears why.
#[allow(dead_code)]
mod weft;
use weft::{Comm, Error, Parameter, Reducer};

fn step(comm: &Comm) -> Result<(), Error> {
    let parameters = [Parameter { name: "a", shape: vec![3], values: vec![0.0; 3] }, Parameter { name: "b", shape: vec![], values: vec![0.0] }];
    let mut reducer = Reducer::new(comm, &parameters)?;
    for turn in 0..2 {
        reducer.begin()?;
        reducer.ready(1)?;
        if turn == 1 && comm.rank() == 1 {
            reducer.gradient(1)?[0] = 1.0;
        }
        reducer.ready(0)?;
        reducer.finish()?;
        assert_eq!(reducer.gradient(1)?.len(), 1);
    }
    Ok(())
}

fn main() {
    let comm = Comm::connect().unwrap_or_else(|error| panic!("{}", error));
    if let Err(error) = step(&comm) {
        println!("rank {} heard, for status {}: {}", comm.rank(), error.exit_code(), error);
    }
}
