
/* -*- mode: js; indent-tabs-mode: nil; js-indent-level: 4 -*-
   vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=javascript
   SPDX-License-Identifier: Apache-2.0
   Draws the charts of kernel.html from the JSON in #data:
   from, to   the run, ms since the epoch
   axes       [{b: first ms of each column, e: last ms}], after `from`
   charts     [{type, unit, axis, v: means, lo, hi: least and greatest within a column, low, high: of the single series, places, heat}]
   names      of the rows of maps
   null is a hole. Text from outside only ever becomes a text node. */
"use strict";
(() => {
    const data = JSON.parse(document.getElementById("data").textContent);
    const span = Math.max(1, data.to - data.from);
    const SVG = "http://www.w3.org/2000/svg";
    const LARGE = { width: 360, height: 128, left: 46, right: 6, top: 6, bottom: 18 };
    const SMALL = { width: 270, height: 66, left: 40, right: 4, top: 4, bottom: 4 };
    const drawn = [];               // every chart: {chart, axis, at, output, cursor}
    let zone = "utc";

    const element = (name, attributes, parent) => {
        const made = document.createElementNS(SVG, name);
        for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
        if (parent) parent.append(made);
        return made;
    };

    // ---- numbers and times in words

    const short = (value, step) => {
        if (value === 0) return "0";
        const size = Math.max(Math.abs(value), Math.abs(step || 0));
        for (const [scale, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
            if (size >= scale * 10 || (size >= scale && scale > 1e3)) return trim(value / scale, (step || value) / scale) + letter;
        }
        return trim(value, step || value);
    };
    const trim = (value, step) => {
        const size = Math.abs(step) || Math.abs(value);
        if (Math.abs(value) < 1e-4) return value.toExponential(Math.min(4, Math.max(0, Math.ceil(Math.log10(Math.abs(value) / size) - 1e-9))));
        return String(Number(value.toFixed(Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(size)))))));
    };
    const full = value => {
        if (value === undefined || value === null) return "no value";
        const size = Math.abs(value);
        if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(5);
        return Number(value.toPrecision(7)).toLocaleString("en", { maximumFractionDigits: size >= 1e5 ? 0 : 8 });
    };
    const two = number => String(number).padStart(2, "0");
    const shift = ms => zone === "utc" ? ms : ms - new Date(ms).getTimezoneOffset() * 60000;
    const clock = (ms, digits) => new Date(shift(ms)).toISOString().slice(11, digits);
    const moment = ms => {
        const date = new Date(shift(ms));
        const minutes = -new Date(ms).getTimezoneOffset();
        const offset = (minutes < 0 ? "-" : "+") + two(Math.floor(Math.abs(minutes) / 60)) + ":" + two(Math.abs(minutes) % 60);
        return date.toISOString().slice(0, 19).replace("T", " ") + (zone === "utc" ? "" : " " + offset);
    };

    // ---- scales

    const niceStep = (range, ticks) => {
        const rough = range / ticks, power = Math.pow(10, Math.floor(Math.log10(rough)));
        return power * ([1, 2, 2.5, 5, 10].find(m => m * power >= rough * 0.999) || 10);
    };
    const timeSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5];
    const timeTicks = most => {
        const step = timeSteps.find(s => span / s <= most) || Math.ceil(span / most / 864e5) * 864e5;
        const shifted = shift(data.from) - data.from;
        const ticks = [];
        for (let t = Math.ceil((data.from + shifted) / step) * step - shifted; t <= data.to; t += step) ticks.push(t);
        const label = t => {
            const day = step >= 864e5 || (span > 864e5 && shift(t) % 864e5 === 0);
            if (day) return new Date(shift(t)).toISOString().slice(5, 10);
            return step >= 6e4 ? clock(t, 16) : step >= 1e3 ? clock(t, 19) : clock(t, 23);
        };
        return ticks.map(t => [t - data.from, label(t)]);
    };

    const extent = curves => {
        let least = Infinity, greatest = -Infinity;
        for (const curve of curves) {
            for (const key of ["v", "lo", "hi", "low", "high"]) {
                for (const value of curve[key] || []) {
                    if (value === null) continue;
                    if (value < least) least = value;
                    if (value > greatest) greatest = value;
                }
            }
        }
        return [least, greatest];
    };
    // From 0, unless that would flatten the curve.
    const valueScale = ([least, greatest]) => {
        if (!(least <= greatest)) return [0, 1, 0.5];
        if (least >= 0 && least < 0.7 * greatest) least = 0;
        if (least === 0 && greatest === 0) return [0, 1, 1];
        // not so near that a change of less than 2 % fills the chart
        const missing = 0.02 * Math.max(Math.abs(least), Math.abs(greatest)) - (greatest - least);
        if (missing > 0) {
            least -= missing / 2;
            greatest += missing / 2;
        }
        const step = niceStep(greatest - least, 3);
        return [Math.floor(least / step + 1e-9) * step, Math.ceil(greatest / step - 1e-9) * step, step];
    };

    // ---- drawing

    const round = number => Math.round(number * 10) / 10;

    // Runs of columns that follow each other without a hole.
    const runs = (axis, values) => {
        const found = [];
        let open = null;
        for (let i = 0; i < values.length; i++) {
            if (values[i] === null) { open = null; continue; }
            if (open && axis.b[i] - axis.e[open[open.length - 1]] > 1) open = null;
            if (!open) found.push(open = []);
            open.push(i);
        }
        return found;
    };
    const steps = (axis, values, x, y) => runs(axis, values).map(run => {
        let path = "";
        for (const i of run) path += (path ? "V" : "M" + round(x(axis.b[i] - 1)) + " ") + round(y(values[i])) + "H" + round(x(axis.e[i]));
        return path;
    }).join("");
    const band = (axis, low, high, x, y) => runs(axis, low).map(run => {
        let path = "";
        for (const i of run) path += (path ? "V" : "M" + round(x(axis.b[i] - 1)) + " ") + round(y(high[i])) + "H" + round(x(axis.e[i]));
        for (const i of run.slice().reverse()) path += "V" + round(y(low[i])) + "H" + round(x(axis.b[i] - 1));
        return path + "Z";
    }).join("");

    const draw = (figure, chart, scale, size, output) => {
        const axis = data.axes[chart.axis];
        const x = ms => size.left + ms / span * (size.width - size.left - size.right);
        const y = value => size.height - size.bottom - (value - scale[0]) / (scale[1] - scale[0]) * (size.height - size.top - size.bottom);
        const svg = element("svg", { viewBox: "0 0 " + size.width + " " + size.height, role: "img" });
        element("title", {}, svg).textContent = (chart.type || chart.names) + (chart.unit ? " in " + chart.unit : "");
        const count = Math.round((scale[1] - scale[0]) / scale[2]);
        for (let tick = 0; tick <= count; tick++) {
            if (size === SMALL && tick > 0 && tick < count) continue;
            const value = scale[0] + tick * scale[2], at = round(y(value));
            element("line", { class: "grid", x1: size.left, x2: size.width - size.right, y1: at, y2: at }, svg);
            element("text", { x: size.left - 4, y: at + 3.5, "text-anchor": "end" }, svg).textContent = short(value, scale[2]);
        }
        const times = element("g", { class: "times" }, svg);
        if (chart.low) element("path", { class: "range", d: band(axis, chart.low, chart.high, x, y) }, svg);
        if (chart.lo) element("path", { class: "band", d: band(axis, chart.lo, chart.hi, x, y) }, svg);
        element("path", { class: "line", d: steps(axis, chart.v, x, y) }, svg);
        const cursor = element("line", { class: "cursor", y1: size.top, y2: size.height - size.bottom, x1: 0, x2: 0 }, svg);
        figure.replaceChildren(svg);
        const place = { chart, axis, x, size, times, cursor, output, svg };
        drawn.push(place);
        labelTimes(place);
        svg.addEventListener("pointermove", event => {
            const box = svg.getBoundingClientRect();
            const at = (event.clientX - box.left) / box.width * size.width;
            point((at - size.left) / (size.width - size.left - size.right) * span);
        });
        svg.addEventListener("pointerleave", () => point(null));
    };

    const labelTimes = place => {
        const { size, times, x } = place;
        times.replaceChildren();
        for (const [ms, label] of timeTicks(size === SMALL ? 3 : 4)) {
            const at = round(x(ms));
            element("line", { class: "grid", x1: at, x2: at, y1: size.top, y2: size.height - size.bottom }, times);
            if (size === SMALL) continue;
            const anchor = at < size.left + 22 ? "start" : at > size.width - 26 ? "end" : "middle";
            element("text", { x: at, y: size.height - 5, "text-anchor": anchor }, times).textContent = label;
        }
    };

    // ---- the moment pointed at, in every chart

    const columnAt = (axis, ms) => {
        let low = 0, high = axis.e.length - 1;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (axis.e[middle] < ms) low = middle + 1; else high = middle;
        }
        return axis.e.length && axis.b[low] - 1 <= ms && ms <= axis.e[low] ? low : -1;
    };
    const readout = (chart, column) => {
        const value = column < 0 ? null : chart.v[column];
        let text = full(value) + (chart.unit && value !== null && value !== undefined ? " " + chart.unit : "");
        if (value !== null && value !== undefined && chart.lo && chart.lo[column] !== chart.hi[column]) {
            text += " (" + full(chart.lo[column]) + " to " + full(chart.hi[column]) + ")";
        } else if (column >= 0 && chart.low && chart.low[column] !== undefined && chart.low[column] !== null) {
            text += " (series " + full(chart.low[column]) + " to " + full(chart.high[column]) + ")";
        }
        return text;
    };
    let pointed = null, waiting = false;
    const point = ms => {
        pointed = ms;
        if (waiting) return;
        waiting = true;
        requestAnimationFrame(() => { waiting = false; show(pointed); });
    };
    const show = ms => {
        const inside = ms !== null && ms >= 0 && ms <= span;
        for (const place of drawn) {
            place.cursor.classList.toggle("on", inside);
            if (!inside) { place.output.textContent = ""; continue; }
            const at = round(place.x(ms));
            place.cursor.setAttribute("x1", at);
            place.cursor.setAttribute("x2", at);
            place.output.textContent = (place.size === LARGE ? clock(data.from + ms, 19) + "  " : "") + readout(place.chart, columnAt(place.axis, ms));
        }
    };

    // ---- maps: a row for each series, time to the right, light to dark from the least to the greatest mean

    const LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const maps = [];                // functions that paint them anew

    const drawMap = (figure, chart) => {
        const heat = chart.heat, axis = data.axes[heat.axis], names = data.names[heat.names];
        const head = document.createElement("p"), legend = document.createElement("span"), output = document.createElement("output");
        const canvas = document.createElement("canvas"), unit = chart.unit ? " " + chart.unit : "";
        const rowHeight = Math.max(1, Math.min(14, Math.floor(480 / heat.rows.length)));
        legend.textContent = "each row a series, " + names[0] + " on top; light " + full(heat.least) + unit + ", dark " + full(heat.greatest) + unit +
            (heat.missing ? "; " + heat.missing + " series more have no row" : "");
        head.append(legend, output);
        canvas.width = 1000;
        canvas.height = rowHeight * heat.rows.length;
        figure.append(head, canvas);
        const x = ms => ms / span * canvas.width;
        const paint = () => {
            const style = getComputedStyle(document.documentElement), brush = canvas.getContext("2d");
            const ends = ["--heat-low", "--heat-high"].map(name => style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map(two => parseInt(two, 16)));
            const colours = [...LEVELS].map((_, level) =>
                "rgb(" + ends[0].map((from, i) => Math.round(from + (ends[1][i] - from) * level / (LEVELS.length - 1))).join(",") + ")");
            brush.clearRect(0, 0, canvas.width, canvas.height);
            heat.rows.forEach((row, number) => {
                for (let i = 0; i < row.length; i++) {
                    const level = LEVELS.indexOf(row[i]);
                    if (level < 0) continue;
                    const left = Math.floor(x(axis.b[i] - 1));
                    brush.fillStyle = colours[level];
                    brush.fillRect(left, number * rowHeight, Math.max(1, Math.floor(x(axis.e[i])) - left), rowHeight);
                }
            });
        };
        maps.push(paint);
        paint();
        canvas.addEventListener("pointermove", event => {
            const box = canvas.getBoundingClientRect();
            const ms = (event.clientX - box.left) / box.width * span;
            const number = Math.min(heat.rows.length - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * heat.rows.length)));
            const column = columnAt(axis, ms), level = column < 0 ? -1 : LEVELS.indexOf(heat.rows[number][column] || ".");
            point(ms);
            output.textContent = names[number] + ": " + (level < 0 ? "no value" :
                "about " + short(heat.least + (heat.greatest - heat.least) * level / (LEVELS.length - 1), (heat.greatest - heat.least) / 64) + unit);
        });
        canvas.addEventListener("pointerleave", () => { point(null); output.textContent = ""; });
    };
    for (const query of ["print", "(prefers-color-scheme: dark)"]) {
        matchMedia(query).addEventListener("change", () => maps.forEach(paint => paint()));
    }

    // ---- the page

    for (const figure of document.querySelectorAll("figure[data-chart]")) {
        const chart = data.charts[figure.dataset.chart];
        const card = figure.closest(".metric");
        draw(figure, chart, valueScale(extent([chart])), LARGE, card.querySelector("header output"));
        const details = card.querySelector("details");
        if (details) details.addEventListener("toggle", () => { if (details.open) unfold(details, chart); });
    }

    // The series of a type, to one scale, drawn when they are first asked for.
    function unfold(details, chart) {
        const places = details.querySelector(".places");
        if (details.dataset.drawn) return;
        details.dataset.drawn = "yes";
        if (chart.heat) drawMap(details.querySelector(".heat"), chart);
        const scale = valueScale(extent(chart.places));
        for (const place of chart.places) {
            const box = document.createElement("div"), head = document.createElement("p"), name = document.createElement("span");
            const output = document.createElement("output"), figure = document.createElement("figure");
            box.className = "place";
            name.textContent = place.names;
            head.append(name, output);
            box.append(head, figure);
            places.append(box);
            draw(figure, Object.assign({ unit: chart.unit }, place), scale, SMALL, output);
        }
    }

    const tellTimes = () => {
        for (const time of document.querySelectorAll("time[data-ms]")) {
            const ms = Number(time.dataset.ms);
            time.textContent = "ofDay" in time.dataset ? clock(ms, 19) : moment(ms);
        }
        document.getElementById("told-in").textContent = zone === "utc" ? "UTC" : "local time";
        drawn.forEach(labelTimes);
    };
    try {
        document.getElementById("zone").textContent = "(" + Intl.DateTimeFormat().resolvedOptions().timeZone + ")";
    } catch (error) { /* an old browser: the offset stands in the times themselves */ }
    for (const choice of document.querySelectorAll("input[name=zone]")) {
        choice.addEventListener("change", () => { zone = choice.value; tellTimes(); });
        if (choice.checked) zone = choice.value;
    }
    tellTimes();

    const find = document.getElementById("find");
    find.addEventListener("input", () => {
        const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
        let any = false;
        for (const section of document.querySelectorAll(".subtool")) {
            let some = false;
            for (const card of section.querySelectorAll(".metric")) {
                const text = (card.querySelector("h3").textContent + " " + card.querySelector(".meaning").textContent).toLowerCase();
                card.hidden = !words.every(word => text.includes(word));
                some = some || !card.hidden;
            }
            section.hidden = !some;
            any = any || some;
        }
        document.getElementById("none").hidden = any || !words.length;
    });

    const button = document.getElementById("unfold"), all = document.querySelectorAll(".metric details");
    button.hidden = !all.length;
    button.addEventListener("click", () => {
        const open = [...all].some(details => !details.open);
        for (const details of all) details.open = open;
        button.textContent = open ? "fold all series" : "unfold all series";
    });
})();
