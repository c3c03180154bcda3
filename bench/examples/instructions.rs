//! `instructions ENGINE ORDER PAIRS`: pairs of an allocation and a free, for counting them under
//! callgrind. See `woodlot_bench::instructions`.

use std::process::ExitCode;

use woodlot_bench::instructions::pairs;
use woodlot_frame::Order;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match &args[..] {
        [engine, order, count] => match (engine.parse(), order.parse(), count.parse()) {
            (Ok(engine), Ok(order), Ok(count)) => Some((engine, Order(order), count)),
            _ => None,
        },
        _ => None,
    };
    let Some((engine, order, count)) = parsed else {
        eprintln!("usage: instructions ENGINE ORDER PAIRS");
        return ExitCode::from(2);
    };
    match pairs(engine, order, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("instructions: {failure}");
            failure.exit_code()
        }
    }
}
