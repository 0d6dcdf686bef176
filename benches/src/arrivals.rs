//! Arrivals as a file that all simulators read: one pod a line, with the lifetime that was drawn for it.

use anyhow::{Context, Result, bail};
use plimsoll_sim::simulation;
use plimsoll_sim::workload::{Builder, Lifetime, PodRecord, Template, Workload};
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

const COLUMNS: &str = "name,arrival_s,lifetime_s,cpu_milli,memory_bytes";

/// Writes the pods of a workload with the lifetimes of a seed.
pub fn write(workload: &Workload, seed: u64, path: &Path) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| format!("{}: cannot be written", path.display()))?;
    let mut to = BufWriter::new(file);
    writeln!(to, "{COLUMNS}")?;
    for (pod, lifetime) in workload.pods.iter().zip(simulation::lifetimes(workload, seed)) {
        let template = workload.templates.get(pod.template as usize);
        let template = template.with_context(|| format!("pod {} has no template", pod.name))?;
        let lifetime = lifetime.map(|lifetime| lifetime.as_secs_f64().to_string()).unwrap_or_default();
        let (arrival, cpu, memory) = (pod.arrival.as_secs_f64(), template.cpu_milli, template.memory);
        writeln!(to, "{},{arrival},{lifetime},{cpu},{memory}", pod.name)?;
    }
    to.flush().with_context(|| format!("{}: cannot be written", path.display()))
}

/// Reads the first pods, or all of them if the limit is 0.
pub fn read(from: &mut dyn BufRead, limit: usize) -> Result<Workload> {
    let mut lines = from.lines();
    let heading = lines.next().transpose()?.unwrap_or_default();
    if heading != COLUMNS {
        bail!("want the columns {COLUMNS}, got {heading}");
    }
    let mut builder = Builder::new();
    for (number, line) in lines.take(if limit == 0 { usize::MAX } else { limit }).enumerate() {
        let pod = parse(&line?, number, &mut builder).with_context(|| format!("line {}", number + 2))?;
        if let Err(pod) = builder.push(pod) {
            bail!("line {}: a second pod named {}", number + 2, pod.name);
        }
    }
    Ok(builder.finish("arrivals", Vec::new()))
}

fn parse(line: &str, number: usize, builder: &mut Builder) -> Result<PodRecord> {
    let mut cells = line.split(',');
    let mut cell = |name: &'static str| cells.next().with_context(|| format!("{name} is missing"));
    let name = cell("name")?.into();
    let arrival = Duration::try_from_secs_f64(cell("arrival_s")?.parse()?)?;
    let lifetime = match cell("lifetime_s")? {
        "" => None,
        seconds => Some(Lifetime::exactly(Duration::try_from_secs_f64(seconds.parse()?)?)),
    };
    let (cpu_milli, memory) = (cell("cpu_milli")?.parse()?, cell("memory_bytes")?.parse()?);
    let template = builder.template(Template { cpu_milli, memory, ..Template::default() });
    Ok(PodRecord { name, template, owner: number as u32, arrival, lifetime, usage: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &str = "a,0,,1000,1024\nb,0.5,10.25,2000,2048\nc,3,0,1000,1024\n";

    #[test]
    fn what_is_written_is_read_back_up_to_the_limit() {
        let text = format!("{COLUMNS}\n{PODS}");
        let workload = read(&mut text.as_bytes(), 0).unwrap();
        assert_eq!((workload.pods.len(), workload.templates.len()), (3, 2));
        let path = std::env::temp_dir().join(format!("plimsoll-arrivals-{}.csv", std::process::id()));
        write(&workload, 1, &path).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(written, text);
        assert_eq!(read(&mut text.as_bytes(), 2).unwrap().pods, workload.pods[..2]);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (row, problem) in
            [("a,0,1,1", "line 2"), ("a,-1,1,1,1", "line 2"), ("a,0,1,1,1\na,0,1,1,1", "line 3: a second pod named a")]
        {
            let error = read(&mut format!("{COLUMNS}\n{row}\n").as_bytes(), 0).unwrap_err();
            assert!(format!("{error:#}").contains(problem), "{row}: {error:#}");
        }
        assert!(read(&mut "name\n".as_bytes(), 0).is_err());
    }
}
