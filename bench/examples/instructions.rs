//! `instructions ENGINE ORDER PAIRS`: pairs of an allocation and a free, for counting them under
//! callgrind. `instructions ENGINE` counts them, for every order. See `woodlot_bench::instructions`.

use std::process::ExitCode;

use woodlot_bench::Failure;
use woodlot_bench::engine::Engine;
use woodlot_bench::instructions::{count, pairs};
use woodlot_frame::{Base4K, Order};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        None => {
            eprintln!("usage: instructions ENGINE [ORDER PAIRS]");
            ExitCode::from(2)
        }
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(failure)) => {
            eprintln!("instructions: {failure}");
            failure.exit_code()
        }
    }
}

/// `None` for arguments that cannot be read.
fn run(args: &[&str]) -> Option<Result<(), Failure>> {
    Some(match *args {
        [engine] => count_all(engine.parse().ok()?),
        [engine, order, number] => {
            pairs(engine.parse().ok()?, Order(order.parse().ok()?), number.parse().ok()?)
        }
        _ => return None,
    })
}

fn count_all(engine: Engine) -> Result<(), Failure> {
    println!("instructions for one allocation and its free, {}", engine.name());
    for order in Order::all::<Base4K>() {
        println!("order {:2}: {:.1}", order.0, count(engine, order)?);
    }
    Ok(())
}
