// Draws a report from the data in the page. Text from the data only ever becomes text nodes, never markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set();
  const colour = (policy) => `var(--c${policy % 8})`;
  const DASHES = ["", "7 3", "2 2.5", "9 3 2 3"];
  const dash = (policy) => DASHES[Math.floor(policy / 8) % DASHES.length];
  // Where colours repeat, a striped patch stands for the dashed line.
  const patch = (policy) => (policy < 8 ? `background: ${colour(policy)}` : `background: repeating-linear-gradient(135deg, ${colour(policy)} 0 2.5px, transparent 2.5px 4.5px)`);
  const visible = (policy) => !hidden.has(policy);

  const SVG = "http://www.w3.org/2000/svg";
  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes ?? {})) if (value !== null && value !== "") node.setAttribute(key, value);
    node.append(...(children ?? []).filter((child) => child !== null));
    return node;
  }
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  function number(value, digits = 4) {
    if (value === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(value)));
    const decimals = Math.min(6, Math.max(0, digits - 1 - size));
    const [whole, fraction] = Math.abs(value).toFixed(decimals).split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u2009");
    return (value < 0 ? "−" : "") + grouped + (fraction ? "." + fraction : "");
  }
  const brief = (value, digits) => number(value, digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  const signed = (value, digits) => (value > 0 ? "+" : "") + number(value, digits);

  function niceStep(span, count) {
    const rough = span / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 2.5, 5, 10].map((by) => by * power).find((step) => step >= rough * 0.999) ?? 10 * power;
  }
  function ticks(low, high, count) {
    const step = niceStep(high - low || 1, count);
    const all = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) all.push(Number(at.toPrecision(12)));
    return all;
  }
  const tickLabel = (value) => (value === 0 ? "0" : Math.abs(value) >= 1000 ? number(value, 1) : String(Number(value.toPrecision(6))).replace("-", "−"));

  // Simulated time in hours, or in days where hours grow long.
  const timeScale = (hours) => (hours > 96 ? { by: 24, unit: "days" } : hours >= 2 ? { by: 1, unit: "hours" } : { by: 1 / 60, unit: "minutes" });
  function seconds(value) {
    if (value < 1) return `${brief(value * 1000, 3)} ms`;
    if (value < 60) return `${brief(value, 3)} s`;
    if (value < 3600) return `${brief(value / 60, 3)} min`;
    return value < 86400 ? `${brief(value / 3600, 3)} h` : `${brief(value / 86400, 3)} d`;
  }

  function nearest(values, wanted) {
    let [low, high] = [0, values.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low > 0 && wanted - values[low - 1] < values[low] - wanted ? low - 1 : low;
  }
  // A centred mean over a thirtieth of the plot: short enough to follow a change, long enough to still noise.
  function smooth(values) {
    const reach = Math.max(1, Math.round(values.length / 60));
    return values.map((_, at) => {
      const part = values.slice(Math.max(0, at - reach), at + reach + 1).filter((value) => value !== null);
      return part.length ? part.reduce((sum, value) => sum + value, 0) / part.length : null;
    });
  }

  // One plot of lines. A line: { name, x, y, policy | bound, raw }. It is drawn anew when the width or the choice of policies changes.
  function lineChart({ title, note, unit, lines, x, from, yMax, wide }) {
    const figure = el("figure", { class: wide ? "wide" : "" }, el("figcaption", {}, el("h3", {}, title), el("p", {}, note)));
    const plot = svg("svg", { class: "chart", tabindex: "0", role: "img", "aria-label": `${title}. ${note} Arrow keys move the marker.` });
    const readout = el("div", { class: "readout", hidden: "hidden" });
    figure.append(plot, readout);
    let marker = null;
    let geometry = null;

    function draw() {
      plot.replaceChildren();
      const [width, height] = [plot.clientWidth || 480, plot.clientHeight || 270];
      const shown = lines.filter((line) => line.bound || visible(line.policy));
      const finite = (values) => values.filter((value) => value !== null);
      const xs = lines.flatMap((line) => finite(line.x));
      const ys = shown.flatMap((line) => finite(line.y));
      if (!xs.length || !ys.length) {
        plot.append(svg("text", { x: 12, y: 30 }, "Nothing to draw: every policy is hidden."));
        geometry = null;
        return;
      }
      // Loops, not spread: a long series would overflow the stack.
      const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
      const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
      const scale = x.scale(least(xs), most(xs));
      const yStep = niceStep(yMax ?? (most(ys) || 1), 5);
      const yTop = yMax ?? Math.ceil((most(ys) || 1) / yStep - 1e-9) * yStep;
      const yTicks = ticks(0, yTop, 5);
      const left = 14 + 6.4 * most(yTicks.map((tick) => tickLabel(tick).length));
      const [right, top, bottom] = [14, 20, 38];
      const px = (value) => left + scale.place(value) * (width - left - right);
      const py = (value) => height - bottom - (value / yTop) * (height - top - bottom);
      if (from > 0 && x.time) {
        plot.append(svg("rect", { class: "warm", x: px(least(xs)), y: top, width: Math.max(0, px(from) - px(least(xs))), height: height - top - bottom }));
        if (px(from) - left > 56) plot.append(svg("text", { x: px(from) - 5, y: top + 13, "text-anchor": "end" }, "warm-up"));
      }
      for (const tick of yTicks) {
        plot.append(svg("line", { class: "gridline", x1: left, x2: width - right, y1: py(tick), y2: py(tick) }));
        plot.append(svg("text", { x: left - 7, y: py(tick) + 4, "text-anchor": "end" }, tickLabel(tick)));
      }
      plot.append(svg("text", { x: left, y: 11 }, unit));
      let free = -Infinity;
      for (const { at, label } of scale.ticks(Math.max(2, Math.floor((width - left - right) / 56)))) {
        const half = label.length * 3.1;
        const middle = Math.min(px(at), width - half - 2);
        plot.append(svg("line", { class: "gridline", x1: px(at), x2: px(at), y1: height - bottom, y2: height - bottom + 4 }));
        if (middle - half < free + 6) continue;
        plot.append(svg("text", { x: middle, y: height - bottom + 17, "text-anchor": "middle" }, label));
        free = middle + half;
      }
      plot.append(svg("text", { x: width - right, y: height - 5, "text-anchor": "end" }, scale.unit));
      for (const line of shown) {
        let path = "";
        let pen = "M";
        line.y.forEach((value, at) => {
          if (value === null || line.x[at] === null) { pen = "M"; return; }
          const point = `${px(line.x[at]).toFixed(1)} ${py(value).toFixed(1)}`;
          path += line.steps && pen === "L" ? `H${px(line.x[at]).toFixed(1)}V${py(value).toFixed(1)}` : pen + point;
          pen = "L";
        });
        const style = line.bound ? null : `stroke: ${colour(line.policy)}`;
        const kind = line.bound ? "bound" : line.raw ? "line raw" : "line";
        plot.append(svg("path", { class: kind, d: path, style, "stroke-dasharray": line.bound ? null : dash(line.policy) }));
      }
      geometry = { shown: shown.filter((line) => !line.raw), px, left, right, top, bottom, width, height, scale };
      mark();
    }

    function mark() {
      plot.querySelector(".cursor")?.remove();
      readout.hidden = marker === null || geometry === null;
      if (readout.hidden) return;
      const { shown, px, top, bottom, width, height, scale } = geometry;
      plot.append(svg("line", { class: "cursor", x1: px(marker), x2: px(marker), y1: top, y2: height - bottom }));
      const rows = shown.map((line) => ({ line, value: line.y[nearest(line.x, marker)] })).filter((row) => row.value !== null && row.value !== undefined);
      rows.sort((a, b) => b.value - a.value);
      readout.replaceChildren(el("b", {}, scale.name(marker)), ...rows.slice(0, 14).map(({ line, value }) => {
        const swatch = el("i", { class: "swatch", style: line.bound ? "background: var(--ink)" : patch(line.policy) });
        return el("div", {}, el("span", {}, swatch, line.name), el("span", {}, `${brief(value)} ${unit}`));
      }));
      const beside = plot.offsetLeft + px(marker);
      const onLeft = px(marker) > width / 2;
      readout.style.left = onLeft ? "auto" : `${beside + 10}px`;
      readout.style.right = onLeft ? `${figure.clientWidth - beside + 10}px` : "auto";
      readout.style.top = `${plot.offsetTop + 18}px`;
    }

    const grid = () => geometry?.shown[0]?.x.filter((value) => value !== null) ?? [];
    plot.addEventListener("pointermove", (event) => {
      if (!geometry) return;
      const at = event.clientX - plot.getBoundingClientRect().left;
      const all = grid();
      const places = all.map((value) => geometry.px(value));
      marker = all.length ? all[nearest(places, at)] : null;
      mark();
    });
    plot.addEventListener("pointerleave", () => { marker = null; mark(); });
    plot.addEventListener("blur", () => { marker = null; mark(); });
    plot.addEventListener("keydown", (event) => {
      const all = grid();
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -all.length, End: all.length }[event.key];
      if (event.key === "Escape") marker = null;
      else if (steps === undefined || !all.length) return;
      else {
        const at = marker === null ? (steps > 0 ? -1 : all.length) : nearest(all, marker);
        marker = all[Math.min(all.length - 1, Math.max(0, at + steps))];
      }
      event.preventDefault();
      mark();
    });
    new ResizeObserver(draw).observe(plot);
    redraws.push(draw);
    return figure;
  }

  const overTime = {
    time: true,
    scale(low, high) {
      const { by, unit } = timeScale(high - low);
      const span = high - low || 1;
      return {
        unit,
        place: (hours) => (hours - low) / span,
        ticks: (count) => ticks(low / by, high / by, count).map((tick) => ({ at: tick * by, label: tickLabel(tick) })),
        name: (hours) => `${number(hours / by, 4)} ${unit}`,
      };
    },
  };
  const WAITS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 28 * 86400];
  const overWaits = {
    scale(low, high) {
      // A logarithm that begins at nothing: most pods wait for none or next to none.
      const unit = 0.001;
      const bend = (value) => Math.log10(1 + Math.max(0, value) / unit);
      const [first, last] = [bend(low), Math.max(bend(high), bend(low) + 1)];
      return {
        unit: "waited at most",
        place: (value) => (bend(value) - first) / (last - first),
        ticks: () => [low, ...WAITS.filter((tick) => tick > low && tick <= high)].map((at) => ({ at, label: at === 0 ? "0" : seconds(at) })),
        name: (value) => `at most ${seconds(value)}`,
      };
    },
  };

  // Pods per machine: a row a machine, a column a sample, the policy's colour the stronger the more pods.
  function heatMaps(runs) {
    const figure = el("figure", { class: "wide" });
    const most = runs.reduce((top, run) => run.series.pods_per_node.reduce((top, row) => row.reduce((a, b) => Math.max(a, b), top), top), 1);
    const note = `A row is a machine, in the fleet’s order; the stronger the colour, the more pods, up to ${brief(most)}. Blank is empty.`;
    const place = el("p", { "aria-live": "polite" }, note);
    const maps = el("div", { class: "heats" });
    figure.append(el("figcaption", {}, el("h3", {}, "Pods per machine"), place), maps);
    function draw() {
      maps.replaceChildren();
      for (const run of runs.filter((run) => visible(run.policy))) {
        const { nodes, pods_per_node: rows, hours } = run.series;
        const columns = rows[0]?.length ?? 0;
        if (!columns) continue;
        const canvas = el("canvas", { role: "img", "aria-label": `Pods on each of ${nodes.length} machines over time under ${data.policies[run.policy]}` });
        [canvas.width, canvas.height] = [columns, rows.length];
        canvas.style.height = `${Math.min(260, Math.max(64, rows.length * 9))}px`;
        const { by, unit } = timeScale(hours[hours.length - 1] - hours[0]);
        maps.append(el("div", { class: "heat" }, el("h4", {}, el("i", { class: "swatch", style: patch(run.policy) }), data.policies[run.policy]), canvas,
          el("div", { class: "ends" }, el("span", {}, brief(hours[0] / by, 3)), el("span", {}, `${brief(hours[hours.length - 1] / by, 3)} ${unit}`))));
        const brush = canvas.getContext("2d");
        brush.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--c${run.policy % 8}`).trim();
        rows.forEach((row, y) => row.forEach((pods, x) => {
          if (!pods) return;
          // One pod must be told from none.
          brush.globalAlpha = 0.16 + 0.84 * (pods / most);
          brush.fillRect(x, y, 1, 1);
        }));
        canvas.addEventListener("pointermove", (event) => {
          const box = canvas.getBoundingClientRect();
          const x = Math.min(columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * columns)));
          const y = Math.min(rows.length - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows.length)));
          place.textContent = `${data.policies[run.policy]}: ${nodes[y]} has ${rows[y][x]} pods at ${number((hours[x] ?? 0) / by, 4)} ${unit}.`;
        });
        canvas.addEventListener("pointerleave", () => { place.textContent = note; });
      }
    }
    redraws.push(draw);
    draw();
    return figure;
  }

  let redraws = [];
  function drawPlots(section, chosen) {
    redraws = [];
    const grid = el("div", { class: "grid" });
    const runs = chosen.runs;
    const name = (run) => data.policies[run.policy];
    const lines = (key) => runs.filter((run) => run.series[key].length).map((run) => ({ name: name(run), policy: run.policy, x: run.series.hours, y: run.series[key] }));
    const bound = (key) => (chosen.bound ? [{ name: "bound", bound: true, x: chosen.bound.hours, y: chosen.bound[key] }] : []);
    const boundNote = chosen.bound ? " The dotted line is the bound." : "";
    const add = (options) => { if (options.lines.length) grid.append(lineChart({ x: overTime, from: chosen.from, ...options })); };
    add({ title: "Active machines", note: `Machines with at least one pod.${boundNote}`, unit: "machines", lines: [...lines("active_nodes"), ...bound("active_nodes")] });
    add({ title: "Power", note: `What all machines draw together.${boundNote}`, unit: "kW", lines: [...lines("kw"), ...bound("kw")] });
    add({
      title: "Energy", note: `Summed up since measuring began.${boundNote}`, unit: "kWh",
      lines: [...lines("kw"), ...bound("kw")].map((line) => ({ ...line, y: summed(line.x, line.y, chosen.from ?? 0) })),
    });
    const latency = lines("latency_ms");
    add({
      title: "Latency to the user", note: "Mean over running pods: faint as sampled, strong as a moving average.", unit: "ms",
      lines: [...latency.map((line) => ({ ...line, raw: true })), ...latency.map((line) => ({ ...line, y: smooth(line.y) }))],
    });
    if (lines("waiting").some((line) => line.y.some((pods) => pods > 0))) {
      add({ title: "Waiting pods", note: "Pods that have arrived and found no machine yet.", unit: "pods", lines: lines("waiting") });
    }
    const waits = runs.filter((run) => run.series.wait_count.some((count) => count > 0)).map((run) => {
      const { wait_upper_s: upper, wait_count: count } = run.series;
      const all = count.reduce((sum, pods) => sum + pods, 0);
      let sum = 0;
      const y = count.map((pods) => ((sum += pods) / all) * 100);
      // The last class may be open: its pods are what the line lacks to 100 %.
      const closed = upper.filter((end) => end !== null);
      return { name: name(run), policy: run.policy, steps: true, x: [0, ...closed], y: [upper[0] === 0 ? y[0] : 0, ...y.slice(0, closed.length)] };
    });
    add({ title: "Distribution of waits", note: "Share of placed pods that waited at most so long from arrival to start.", unit: "%", lines: waits, x: overWaits, yMax: 100 });
    const heats = runs.filter((run) => run.series.pods_per_node.length);
    if (heats.length) grid.append(heatMaps(heats));
    section.querySelector(".grid")?.remove();
    section.append(grid);
  }
  function summed(hours, kw, from) {
    let sum = 0;
    return kw.map((value, at) => {
      if (at > 0 && hours[at - 1] >= from && value !== null && kw[at - 1] !== null) sum += ((value + kw[at - 1]) / 2) * (hours[at] - hours[at - 1]);
      return sum;
    });
  }

  function chooser(label, options, change) {
    const select = el("select", {}, ...options.map(([value, text]) => el("option", { value }, text)));
    select.addEventListener("change", () => change(select.value));
    return el("label", {}, label, select);
  }

  function plots() {
    const section = document.getElementById("plots");
    if (!data.cases.length) return;
    section.hidden = false;
    section.append(el("h2", {}, "Over time"));
    if (data.cases.length > 1) {
      const several = data.scenarios.length > 1;
      const options = data.cases.map((one, at) => [String(at), `${several ? one.scenario + ", " : ""}window ${one.window}, seed ${one.seed}`]);
      section.append(el("div", { class: "controls" }, chooser("Case", options, (at) => drawPlots(section, data.cases[Number(at)]))));
    } else {
      const [one] = data.cases;
      section.append(el("p", { class: "lead" }, `Window ${one.window}, seed ${one.seed}.`));
    }
    drawPlots(section, data.cases[0]);
  }

  function differences() {
    const section = document.getElementById("differences");
    const baseline = data.policies[data.baseline];
    if (data.policies.length < 2) return;
    section.hidden = false;
    let scenario = data.scenarios[0];
    let wanted = "kw_ratio";
    const holder = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences" });
    function draw() {
      const found = scenario.differences.find((row) => data.measures[row.measure].key === wanted) ?? scenario.differences[0];
      const measure = data.measures[found.measure];
      const rows = found.policies.map((row, policy) => ({ row, policy })).filter(({ row }) => row !== null);
      rows.sort((a, b) => (a.row.mean - b.row.mean) * (measure.better === "more" ? -1 : 1));
      const ends = rows.flatMap(({ row }) => [row.mean, row.low ?? row.mean, row.high ?? row.mean, 0]);
      const [low, high] = [Math.min(...ends), Math.max(...ends)];
      const pad = (high - low || 1) * 0.06;
      const px = (value) => ((value - low + pad) / (high - low + 2 * pad)) * 100;
      const unit = measure.unit === "%" ? "percentage points" : measure.unit;
      const judged = measure.better === "neither" ? "Less / more" : "Better / worse";
      const head = ["Policy", `Mean difference${unit ? ", " + unit : ""}`, "95 % interval", "Relative", judged, ""];
      const body = rows.map(({ row, policy }) => {
        const line = (attributes) => svg("line", { ...attributes, "vector-effect": "non-scaling-stroke" });
        const at = (value) => `${px(value)}%`;
        const forest = svg("svg", { "aria-hidden": "true" },
          line({ x1: at(0), x2: at(0), y1: 0, y2: 34, style: "stroke: var(--soft); stroke-dasharray: 2 3" }),
          row.low === null ? null : line({ x1: at(row.low), x2: at(row.high), y1: 17, y2: 17, style: `stroke: ${colour(policy)}; stroke-width: 3; stroke-linecap: round; opacity: .45` }),
          svg("circle", { cx: at(row.mean), cy: 17, r: 4.5, style: `fill: ${colour(policy)}` }));
        const [good, bad] = measure.better === "more" ? [row.more, row.less] : [row.less, row.more];
        const interval = row.low === null ? "one case" : `${signed(row.low, 3)} to ${signed(row.high, 3)}`;
        const sure = row.low !== null && (row.low > 0 || row.high < 0);
        return el("tr", { "data-policy": policy },
          el("th", { scope: "row", class: "name" }, el("i", { class: "swatch", style: patch(policy) }), data.policies[policy]),
          el("td", { class: sure ? "best" : "" }, signed(row.mean, 3)), el("td", {}, interval),
          el("td", {}, row.relative === null ? "–" : `${signed(row.relative * 100, 3)} %`),
          el("td", {}, `${good} / ${bad} of ${row.pairs}`), el("td", { class: "forest" }, forest));
      });
      holder.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...head.map((text, at) => el("th", { scope: "col", class: at === 0 ? "name" : "" }, text)))), el("tbody", {}, ...body)));
      definition.textContent = `${measure.definition} ${{ less: "Less is better.", more: "More is better.", neither: "" }[measure.better]}`;
      dim();
    }
    const definition = el("p", { class: "lead" });
    const controls = el("div", { class: "controls" });
    const measures = () => scenario.differences.map((row) => data.measures[row.measure]);
    controls.append(chooser("Measure", measures().map((measure) => [measure.key, measure.label]), (key) => { wanted = key; draw(); }));
    const preset = controls.querySelector("select");
    if (measures().some((measure) => measure.key === wanted)) preset.value = wanted;
    if (data.scenarios.length > 1) {
      controls.append(chooser("Scenario", data.scenarios.map((one, at) => [String(at), one.name]), (at) => { scenario = data.scenarios[Number(at)]; draw(); }));
    }
    section.append(el("h2", {}, `Difference to ${baseline}`), el("p", { class: "lead" }, "Case by case against the same pods. A bold difference has an interval that excludes zero."), controls, definition, holder);
    draw();
  }

  function legend() {
    const nav = document.getElementById("legend");
    const row = el("div", {});
    data.policies.forEach((name, policy) => {
      const sample = svg("svg", { viewBox: "0 0 20 10", "aria-hidden": "true" },
        svg("line", { x1: 0, x2: 20, y1: 5, y2: 5, style: `stroke: ${colour(policy)}; stroke-width: 3`, "stroke-dasharray": dash(policy) }));
      const button = el("button", { type: "button", "aria-pressed": "true", title: name }, sample, el("span", {}, name));
      button.addEventListener("click", () => {
        if (!hidden.delete(policy)) hidden.add(policy);
        button.setAttribute("aria-pressed", String(visible(policy)));
        dim();
        redraws.forEach((draw) => draw());
      });
      row.append(button);
    });
    nav.append(row);
    nav.hidden = false;
  }
  function dim() {
    for (const node of document.querySelectorAll("[data-policy]")) node.toggleAttribute("data-off", !visible(Number(node.dataset.policy)));
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = el("button", { type: "button" }, ...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const first = head.dataset.better === "more" ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const body = table.tBodies[0];
        const value = (row) => Number(row.cells[column].dataset.value ?? NaN);
        const rows = [...body.rows].sort((a, b) => {
          if (column === 0) return sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent);
          const [x, y] = [value(a), value(b)];
          // What was not measured comes last either way.
          if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
          return sign * (x - y);
        });
        body.append(...rows);
      });
    });
  }

  for (const swatch of document.querySelectorAll("[data-colour]")) swatch.setAttribute("style", patch(Number(swatch.dataset.colour)));
  document.querySelectorAll("table.sortable").forEach(sortable);
  legend();
  differences();
  plots();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((draw) => draw()));
})();
