//! Data-parallel training in Rust over weft (docs/c.md): a net of two layers learns which byte of a text comes next. rustc alone builds it:
//!
//!     rustc --edition 2021 -O train.rs $(pkg-config --libs weft)
//!     weft-launch -n 2 ./train [TEXT]
//!
//! A step learns 128 places of the text, of which each rank takes its share; so the losses are the same on any number of ranks, but for rounding.

mod weft;

use std::process::ExitCode;
use weft::{Comm, Error, Parameter, Reducer};

const CONTEXT: usize = 6; // bytes in,
const HIDDEN: usize = 64; // hidden values,
const BYTES: usize = 256; // probabilities out
const EMBED: usize = 0;
const HEAD: usize = 1;
const STEPS: usize = 301;
const BATCH: usize = 128;
const RATE: f32 = 1.0;

/// The same numbers on every machine and rank (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }
}

fn model() -> Vec<Parameter> {
    let mut random = Random(1);
    let mut parameter = |name, rows: usize, columns: usize| {
        let values = (0..rows * columns).map(|_| ((random.next() >> 40) as f32 / (1 << 24) as f32 - 0.5) * 0.35).collect();
        Parameter { name, shape: vec![rows as i64, columns as i64], values }
    };
    vec![parameter("embed", CONTEXT * BYTES, HIDDEN), parameter("head", HIDDEN, BYTES)]
}

/// What forward found at a place of the text, for backward.
struct Seen {
    rows: [usize; CONTEXT],
    hidden: [f32; HIDDEN],
    error: [f32; BYTES], // probabilities, less 1 for the byte that comes
}

/// The mean loss of the bytes that follow `places`.
fn forward(model: &[Parameter], text: &[u8], places: &[usize]) -> (f64, Vec<Seen>) {
    let (embed, head) = (&model[EMBED].values, &model[HEAD].values);
    let mut loss = 0.0;
    let seen = places.iter().map(|&place| {
        let mut one = Seen { rows: [0; CONTEXT], hidden: [0.0; HIDDEN], error: [0.0; BYTES] };
        for k in 0..CONTEXT {
            one.rows[k] = (BYTES * k + text[place + k] as usize) * HIDDEN;
            one.hidden.iter_mut().zip(&embed[one.rows[k]..]).for_each(|(h, e)| *h += e);
        }
        for (k, h) in one.hidden.iter_mut().enumerate() {
            *h = h.tanh();
            one.error.iter_mut().zip(&head[k * BYTES..]).for_each(|(score, w)| *score += *h * w);
        }
        let most = one.error.iter().fold(f32::MIN, |a, &b| a.max(b));
        one.error.iter_mut().for_each(|score| *score = (*score - most).exp());
        let sum: f32 = one.error.iter().sum();
        one.error.iter_mut().for_each(|chance| *chance /= sum);
        let wanted = &mut one.error[text[place + CONTEXT] as usize];
        loss -= (*wanted as f64).ln();
        *wanted -= 1.0;
        one
    });
    let seen = seen.collect();
    (loss / places.len() as f64, seen)
}

fn backward(model: &[Parameter], seen: &[Seen], reducer: &mut Reducer) -> Result<(), Error> {
    let scale = 1.0 / seen.len() as f32;
    let of_head = reducer.gradient(HEAD)?;
    of_head.fill(0.0);
    for one in seen {
        for (k, h) in one.hidden.iter().enumerate() {
            of_head[k * BYTES..][..BYTES].iter_mut().zip(&one.error).for_each(|(g, e)| *g += scale * h * e);
        }
    }
    reducer.ready(HEAD)?; // it leaves while the rest of backward runs
    let of_embed = reducer.gradient(EMBED)?;
    of_embed.fill(0.0);
    for one in seen {
        for (k, h) in one.hidden.iter().enumerate() {
            let error: f32 = one.error.iter().zip(&model[HEAD].values[k * BYTES..]).map(|(e, w)| e * w).sum();
            one.rows.iter().for_each(|row| of_embed[row + k] += scale * error * (1.0 - h * h));
        }
    }
    reducer.ready(EMBED)
}

fn learn(comm: &Comm, text: &[u8]) -> Result<(), Error> {
    let (rank, ranks, end) = (comm.rank(), comm.size(), text.len() / 10 * 9); // the last tenth is held out
    if BATCH % ranks != 0 {
        return Err(Error::usage(format!("train: {} ranks cannot share {} places of a step; start 1, 2, 4, ... ranks", ranks, BATCH)));
    }
    let mut model = model();
    weft::sync_initial_values(comm, &mut model)?;
    let mut reducer = Reducer::new(comm, &model)?;
    let held_out: Vec<usize> = (end..text.len() - CONTEXT).step_by(7).collect();
    let mut random = Random(2);
    for step in 0..STEPS {
        if step % 100 == 0 && rank == 0 {
            println!("step {}: held-out loss {:.4}", step, forward(&model, text, &held_out).0);
        }
        let places: Vec<usize> = (0..BATCH).map(|_| random.next() as usize % (end - CONTEXT)).collect();
        let mine: Vec<usize> = places.into_iter().skip(rank).step_by(ranks).collect();
        let (_, seen) = forward(&model, text, &mine);
        reducer.begin()?;
        backward(&model, &seen, &mut reducer)?;
        reducer.finish()?;
        for (id, one) in model.iter_mut().enumerate() {
            one.values.iter_mut().zip(reducer.gradient(id)?).for_each(|(value, mean)| *value -= RATE * *mean);
        }
    }
    println!("rank {} of {}: the first weight is {:08x}", rank, ranks, model[HEAD].values[0].to_bits());
    Ok(())
}

fn train() -> Result<(), Error> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "/usr/share/common-licenses/GPL-3".into());
    let text = std::fs::read(&name).map_err(|error| Error::usage(format!("train: cannot read {}: {}", name, error)))?;
    if text.len() < 10000 {
        return Err(Error::usage(format!("train: {} has {} bytes; name a text of 10000 bytes or more", name, text.len())));
    }
    let comm = Comm::connect()?;
    learn(&comm, &text).map_err(|error| comm.give_up(error))
}

fn main() -> ExitCode {
    match train() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error);
            ExitCode::from(error.exit_code())
        }
    }
}
