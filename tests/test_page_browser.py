# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""kernel.html in a real headless Chromium: it draws what was published, unfolds, tells times and values, prints, in light and dark.

KERNELTOOLS_SCREENSHOTS=DIR keeps pictures of every page that is opened here, to be looked at.
"""

import os
import re
from pathlib import Path

import browser
import pytest
from perf_output import EPOCH, block, line, post_process, process, run_of, write_clock, write_output, write_topology
from test_page import EVENT, HOSTILE, per_cpu

from kerneltools import page

pytestmark = pytest.mark.skipif(bool(browser.missing()), reason=f"{browser.missing()} is not installed: the page is not tried in a browser")

RED = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    opened = browser.Browser(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.fixture
def show(window, data_dir, request):
    """show(): open the page of data_dir in the window, light, in UTC; afterwards no word may be on the console."""

    def opened():
        window.emulate(prefers_color_scheme="light")
        window.zone("UTC")
        window.console()
        window.open(data_dir / "postprocess" / "kernel.html")
        return window

    yield opened
    pictures = os.environ.get("KERNELTOOLS_SCREENSHOTS")
    if pictures:
        window.screenshot(Path(pictures) / (re.sub(r"\W+", "-", request.node.name) + ".png"))
    assert window.console() == []


def paths(window, card, kind="line"):
    """The runs of a curve as it is drawn, each a list of (x from, x to, y)."""
    drawn = window.run(
        "const found = document.querySelector(arguments[0] + ' .' + arguments[1]); return found && found.getAttribute('d')", card, kind
    )
    runs = []
    for text in (drawn or "").split("M")[1:]:
        x, rest = re.match(r"(\S+) (.*)", text).groups()
        steps = re.findall(r"(?:^|V)(-?[0-9.]+)H(-?[0-9.]+)", rest)
        run, left = [], float(x)
        for y, right in steps:
            run.append((left, float(right), float(y)))
            left = float(right)
        runs.append(run)
    return runs


def scale(window, card):
    """The value axis: its least and greatest label, with the y of their lines."""
    return window.run(
        """const lines = [...document.querySelectorAll(arguments[0] + ' figure.chart svg > text')];
        return lines.map(text => [text.textContent, Number(text.getAttribute('y')) - 3.5])""",
        card,
    )


def card_of(window, metric_type):
    return "#" + window.run(
        "return [...document.querySelectorAll('.metric')].find(card => "
        "card.querySelector('h3').firstChild.textContent.trim() === arguments[0]).id",
        metric_type,
    )


def test_the_curve_is_that_of_the_samples(data_dir, show):
    values = [n * n % 17 for n in range(60)]
    done = post_process(data_dir, run_of(*({"page-faults": value} for value in values)))
    window = show()
    card = card_of(window, "page-faults")
    (run,) = paths(window, card)
    assert len(run) == 60
    (low, bottom), *_, (high, top) = scale(window, card)
    drawn = [float(low) + (bottom - y) / (bottom - top) * (float(high) - float(low)) for _, _, y in run]
    assert drawn == pytest.approx(values, abs=0.02 * max(values))
    width = run[-1][1] - run[0][0]
    assert [right - left for left, right, _ in run] == pytest.approx([width / 60] * 60, abs=0.2)
    assert done.table["page-faults"][:3] == ("", 1, 60)


def test_pointing_at_a_moment_tells_every_chart_s_value(data_dir, show):
    post_process(data_dir, run_of(*({"page-faults": 1000 * n, "instructions": n, "cycles": 2} for n in range(1, 61))))
    window = show()
    card = card_of(window, "page-faults")
    box = window.run(
        f"const found = document.querySelector('{card} svg'); found.scrollIntoView({{block: 'center'}}); "
        "const r = found.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]"
    )
    (run,) = paths(window, card)
    left, right, _ = run[29]
    window.point(box[0] + (left + right) / 2 / 360 * box[2], box[1] + box[3] / 2)
    told = {name: window.run("return document.querySelector(arguments[0] + ' output').textContent", card_of(window, name))
            for name in ("page-faults", "ipc")}  # fmt: skip
    assert told == {"page-faults": "22:13:49  30,000", "ipc": "22:13:49  15"}
    window.point(2, 2)
    assert window.run("return document.querySelector(arguments[0] + ' output').textContent", card) == ""


def test_a_hole_breaks_the_curve(data_dir, show):
    post_process(data_dir, run_of(*({"instructions": n, "cycles": 0 if 4 <= n <= 9 else 2} for n in range(1, 13))))
    window = show()
    runs = paths(window, card_of(window, "ipc"))
    assert [len(run) for run in runs] == [3, 3]
    assert runs[1][0][0] - runs[0][-1][1] > 100


def test_lost_intervals_break_the_curve(data_dir, show):
    seconds = [1, 2, 3, 4, 14, 15, 16]
    records = [record for second in seconds for record in block(float(second), {"page-faults": second})]
    records.insert(4, "{ torn")
    post_process(data_dir, records)
    window = show()
    runs = paths(window, card_of(window, "page-faults"))
    assert [len(run) for run in runs] == [4, 3]
    assert runs[1][0][0] - runs[0][-1][1] == pytest.approx(9 / 16 * 308, abs=0.2)


def point_at(window, card, part):
    """Point at a moment in a card's chart, by the part of the run that is over then; what the chart tells."""
    left, top, width, height = window.run(
        f"const found = document.querySelector('{card} svg'); found.scrollIntoView({{block: 'center'}}); "
        "const r = found.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]"
    )
    window.point(left + (46 + part * 308) / 360 * width, top + height / 2)
    return window.run("return document.querySelector(arguments[0] + ' output').textContent", card)


def test_a_column_of_several_intervals_tells_its_mean_then_the_least_to_the_greatest(data_dir, show):
    values = [5] * 1000
    values[500], values[777] = 1000, 0
    post_process(data_dir, run_of(*({"page-faults": value} for value in values)))
    window = show()
    card = card_of(window, "page-faults")
    told = [point_at(window, card, part).partition("  ")[2] for part in (0.4995, 0.7785, 0.1)]
    assert told == ["336.6667 (5 to 1,000)", "3.333333 (0 to 5)", "5"]
    (low, bottom), *_, (high, top) = scale(window, card)
    assert (low, high) == ("0", "1000")
    drawn = window.run("return document.querySelector(arguments[0] + ' .band').getAttribute('d')", card)
    height = [float(y) for y in re.findall("V(-?[0-9.]+)", drawn)] + [float(y) for y in re.findall(r"M\S+ (-?[0-9.]+)H", drawn)]
    assert (min(height), max(height)) == (top, bottom)  # from the least to the greatest value


def test_the_series_of_a_moment_are_told_from_the_lowest_to_the_highest(data_dir, show):
    counts = [{"instructions": 10, "cycles": 10}, {"instructions": 60, "cycles": 20}]
    post_process(data_dir, per_cpu([counts] * 4))
    window = show()
    card = card_of(window, "ipc")
    assert point_at(window, card, 0.6) == "22:13:22  2 (series 1 to 3)"
    assert point_at(window, card_of(window, "instructions"), 0.6) == "22:13:22  70"
    drawn = window.run("return document.querySelector(arguments[0] + ' .range').getAttribute('d')", card)
    heights = [float(y) for y in re.findall("(?:V|M[0-9.]+ )(-?[0-9.]+)", drawn)]
    labels = dict(scale(window, card))
    assert (min(heights), max(heights)) == (pytest.approx(labels["3"], abs=0.1), pytest.approx(labels["1"], abs=0.1))


@pytest.mark.parametrize(("greatest", "labels", "told"), [
    (4, ["0", "2", "4"], "4"),
    (4000, ["0", "2000", "4000"], "4,000"),
    (40_000, ["0", "20k", "40k"], "40,000"),
    (4_000_000, ["0", "2M", "4M"], "4,000,000"),
    (40_000_000, ["0", "20M", "40M"], "40,000,000"),
    (4_000_000_000, ["0", "2G", "4G"], "4,000,000,000"),
    (4_000_000_000_000, ["0", "2T", "4T"], "4,000,000,000,000"),
])  # fmt: skip
def test_the_axis_is_labelled_with_the_values_that_are_there(data_dir, show, greatest, labels, told):
    post_process(data_dir, run_of({"page-faults": 0}, {"page-faults": greatest}))
    window = show()
    card = card_of(window, "page-faults")
    assert [label for label, _ in scale(window, card)] == labels
    assert point_at(window, card, 0.75) == f"22:13:21  {told}"


@pytest.mark.parametrize(("values", "labels"), [
    ((50, 100), ["0", "50", "100"]),  # a value twice as high looks twice as high
    ((96, 100), ["96", "98", "100"]),
    ((1000, 1000), ["990", "1000", "1010"]),  # less than 2 % does not fill the chart
    ((0, 0), ["0", "1"]),
])  # fmt: skip
def test_the_axis_begins_at_zero_unless_that_flattens_the_curve(data_dir, show, values, labels):
    post_process(data_dir, run_of(*({"page-faults": value} for value in values)))
    window = show()
    assert [label for label, _ in scale(window, card_of(window, "page-faults"))] == labels


def test_a_value_is_told_to_seven_digits_and_in_its_unit(data_dir, show):
    second = {"instructions": 123_456_700, "cycles": 864_196_900}
    post_process(data_dir, run_of({"instructions": 1_500_000_000, "cycles": 10**9}, second))
    window = show()
    told = {name: point_at(window, card_of(window, name), 0.75) for name in ("ipc", "instructions-sec", "cycles-sec", "counter-running")}
    assert told == {
        "ipc": "22:13:21  0.1428571",
        "instructions-sec": "22:13:21  123.4567 MIPS",
        "cycles-sec": "22:13:21  0.8641969 GHz",
        "counter-running": "22:13:21  100 % (series 100 to 100)",
    }
    title = "return document.querySelector(arguments[0] + ' svg title').textContent"
    assert window.run(title, card_of(window, "cycles-sec")) == "cycles-sec in GHz"
    assert window.run(title, card_of(window, "ipc")) == "ipc"


def test_an_unfolded_series_and_the_map_tell_their_own_values(data_dir, show, monkeypatch):
    monkeypatch.setattr(page, "HEAT_ROWS", 20)
    records = [
        line(float(second), "task-clock", 64 * cpu + second, unit="msec", cpu=str(cpu)) for second in range(1, 5) for cpu in range(40)
    ]
    post_process(data_dir, records)
    window = show()
    card = card_of(window, "task-clock")
    window.run(f"document.querySelector('{card} summary').click(); return new Promise(done => setTimeout(done, 100))")
    legend = window.run(f"return document.querySelector('{card} .heat span').textContent")
    assert legend == "each row a series, cpu 0 on top; light 1 msec, dark 1,220 msec; 20 series more have no row"
    left, top, width, height = window.run(
        f"const found = document.querySelector('{card} canvas'); found.scrollIntoView({{block: 'center'}}); "
        "const r = found.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]"
    )
    window.point(left + width * 0.625, top + height * 10.5 / 20)
    # (643 - 1) / 19.35 = 33.2: level 33 of 63 is 639.5
    assert window.run(f"return document.querySelector('{card} .heat output').textContent") == "cpu 10: about 640 msec"
    told = window.run(f"return [...document.querySelectorAll('{card} .place output')].map(output => output.textContent)")
    assert told == [f"{64 * cpu + 3:,} msec" for cpu in (*range(6), *range(34, 40))]
    titles = window.run(f"return [...document.querySelectorAll('{card} .place svg title')].map(title => title.textContent)")
    assert titles[-1] == "cpu 39 in msec"
    labels = window.run(f"return [...document.querySelectorAll('{card} .place:first-child svg > text')].map(text => text.textContent)")
    assert labels == ["0", "3000"]


def test_series_unfold_and_fold(data_dir, show):
    write_topology(data_dir, {cpu: (0, 0, cpu, str(cpu)) for cpu in range(40)})
    post_process(data_dir, per_cpu([[{"page-faults": 100 * cpu + second} for cpu in range(40)] for second in range(5)]))
    window = show()
    card = card_of(window, "page-faults")
    count = f"return document.querySelectorAll('{card} .place svg').length"
    assert window.run(count) == 0
    window.run(f"document.querySelector('{card} summary').click(); return new Promise(done => setTimeout(done, 100))")
    assert window.run(count) == 12
    assert window.run(f"return document.querySelector('{card} .place span').textContent") == "package 0 die 0 core 0 thread 0 cpu 0"
    corners = window.run(
        f"""const canvas = document.querySelector('{card} canvas');
        const cells = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return [[...cells.slice(0, 4)], [...cells.slice(-4)]]"""
    )
    assert corners == [[0xE8, 0xEF, 0xF7, 255], [0x0B, 0x3A, 0x6F, 255]]  # the least on top left, the greatest at the other end
    window.run(f"document.querySelector('{card} summary').click()")
    assert not window.run(f"return document.querySelector('{card} .places').checkVisibility({{contentVisibilityAuto: true}})")
    button = "return document.querySelector('#unfold').textContent"
    assert window.run(button) == "unfold all series"
    window.run("document.querySelector('#unfold').click(); return new Promise(done => setTimeout(done, 200))")
    assert window.run("return [...document.querySelectorAll('details')].every(details => details.open)")
    assert window.run(button) == "fold all series"
    window.run("document.querySelector('#unfold').click(); return new Promise(done => setTimeout(done, 200))")
    assert window.run("return [...document.querySelectorAll('details')].some(details => details.open)") is False


def test_times_in_utc_and_where_the_reader_is(data_dir, show):
    post_process(data_dir, run_of(*({"page-faults": n} for n in range(10))))
    window = show()
    window.zone("Asia/Kolkata")
    first = "return document.querySelector('time').textContent"
    tick = "return document.querySelector('.chart .times text').textContent"
    assert (window.run(first), window.run(tick)) == ("2023-11-14 22:13:19", "22:13:20")
    window.run("document.querySelector('input[value=local]').click()")
    assert (window.run(first), window.run(tick)) == ("2023-11-15 03:43:19 +05:30", "03:43:20")
    told_in = "return document.querySelector('#told-in').textContent"
    assert window.run(told_in) == "local time"
    window.run("document.querySelector('input[value=utc]').click()")
    assert window.run(first) == "2023-11-14 22:13:19"
    assert window.run(told_in) == "UTC"
    window.zone("America/New_York")
    window.run("document.querySelector('input[value=local]').click()")
    assert (window.run(first), window.run(tick)) == ("2023-11-14 17:13:19 -05:00", "17:13:20")
    window.open(data_dir / "postprocess" / "kernel.html")
    assert window.run("return document.querySelector('#zone').textContent") == "(America/New_York)"
    window.run("document.querySelector('input[value=local]').click()")
    # of the samples' end the day is not said again
    assert window.run("return document.querySelector('time[data-of-day]').textContent") == "17:13:30"


@pytest.mark.parametrize(("seconds", "intervals", "labels"), [
    (0.01, 5, ["22:13:20.000", "22:13:20.020", "22:13:20.040"]),
    (1, 10, ["22:13:20", "22:13:25", "22:13:30"]),
    (600, 12, ["22:30", "23:00", "23:30", "00:00"]),
    (21_600, 24, ["11-15", "11-17", "11-19"]),
])  # fmt: skip
def test_moments_on_the_time_axis_read_as_finely_as_they_lie(data_dir, show, seconds, intervals, labels):
    post_process(data_dir, [record for n in range(1, intervals + 1) for record in block(n * seconds, {"page-faults": n})])
    window = show()
    found = window.run("return [...document.querySelectorAll('#metric-0 .times text')].map(text => text.textContent)")
    assert found == labels


def test_finding_leaves_what_has_the_words(data_dir, show):
    post_process(data_dir, run_of({"page-faults": 1, "instructions": 1, "cycles": 1}))
    window = show()
    seek = """const find = document.querySelector('#find'); find.value = arguments[0]; find.dispatchEvent(new Event('input'));
        return [...document.querySelectorAll('.metric:not([hidden]) h3')].map(h => h.firstChild.textContent.trim())"""
    assert window.run(seek, "EACH cycle does") == ["ipc"]
    assert window.run(seek, "no such thing") == []
    assert window.run("return document.querySelector('#none').getBoundingClientRect().height") > 0
    assert len(window.run(seek, "")) == 7


def test_light_dark_and_print(data_dir, show):
    post_process(data_dir, run_of(*({"page-faults": n} for n in range(10))))
    window = show()
    colours = [window.run(RED, "body", "backgroundColor"), window.run(RED, ".line", "stroke")]
    assert colours == ["rgb(244, 246, 248)", "rgb(31, 95, 168)"]
    window.emulate(prefers_color_scheme="dark")
    colours = [window.run(RED, "body", "backgroundColor"), window.run(RED, ".line", "stroke"), window.run(RED, "body", "color")]
    assert colours == ["rgb(20, 24, 28)", "rgb(124, 180, 242)", "rgb(228, 232, 235)"]
    window.emulate("print", prefers_color_scheme="dark")
    colours = [window.run(RED, "body", "backgroundColor"), window.run(RED, ".line", "stroke"), window.run(RED, "body", "color")]
    assert colours == ["rgb(255, 255, 255)", "rgb(23, 74, 133)", "rgb(0, 0, 0)"]
    assert window.run("return document.querySelector('#find').getBoundingClientRect().height") == 0
    window.emulate()
    pdf = window.printed()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) in (1, 2)


def test_foreign_text_runs_nothing(data_dir, show):
    (data_dir / "kerneltools-environment.txt").write_text(f"hostname={HOSTILE}\n{HOSTILE}={HOSTILE}\n")
    (data_dir / "kerneltools-start-stderrout.txt").write_text(f"WARNING: {HOSTILE}\n")
    write_output(data_dir, [line(float(n), EVENT, 5, unit=HOSTILE, cpu=str(cpu)) for n in (1, 2, 3) for cpu in range(3)])
    write_clock(data_dir, 0, 3)
    process(data_dir)
    window = show()
    window.run("document.querySelector('#unfold').click(); return new Promise(done => setTimeout(done, 200))")
    assert window.run("return document.querySelectorAll('img').length") == 0
    assert window.run("return document.querySelectorAll('script').length") == 2
    assert window.run("return document.querySelector('h1').textContent") == f"kernel tool on {HOSTILE}"
    # and if something got through after all, the page's policy would not let it run
    ran = window.run(
        "const made = document.createElement('script'); made.textContent = 'window.ran = true'; document.body.append(made);"
        "return !!window.ran"
    )
    assert ran is False
    (refused,) = window.console()
    assert "Content Security Policy" in refused


def test_nothing_is_fetched(data_dir, show):
    post_process(data_dir, run_of({"page-faults": 1}))
    assert show().run("return performance.getEntriesByType('resource').filter(entry => !entry.name.startsWith('data:')).length") == 0


def test_two_hundred_charts_are_there_at_once(data_dir, show):
    counts = [{f"sched:event_{event}": event * second % 97 for event in range(199)} for second in range(1, 31)]
    post_process(data_dir, [record for second, events in enumerate(counts, 1) for record in block(float(second), events)])
    window = show()
    assert window.run("return document.querySelectorAll('.chart .line').length") == 200
    assert window.run("return [...document.querySelectorAll('.chart .line')].every(path => path.getAttribute('d').length > 10)")
    lefts = window.run("return [...document.querySelectorAll('.chart .line')].map(path => path.getAttribute('d').split(' ')[0])")
    assert set(lefts) == {"M46"}  # one time axis, at the same place in every chart
    wide = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert window.run(wide)


def test_a_run_without_metrics_is_a_page_too(data_dir, show):
    process(data_dir)
    assert "No metric was published." in show().run("return document.body.innerText")


def test_every_recording_gives_a_page(data_dir, show, recordings):
    for number, source in enumerate(sorted(recordings.glob("perf-*/perf-stat-*.json"))):
        (data_dir / "perf-stat-output.json").write_bytes(source.read_bytes())
        (data_dir / "toplev-output.csv").write_bytes((recordings / "toplev" / "icelake-server-l3-verbose-global.csv").read_bytes())
        (data_dir / "kerneltools-clock.txt").write_text(f"perf-stat begin {EPOCH}\ntoplev begin {EPOCH}\n")
        process_any(data_dir)
        window = show()
        charts = window.run("return [...document.querySelectorAll('.chart .line')].map(path => path.getAttribute('d').length)")
        assert len(charts) >= 20, source
        assert all(charts), source
        if number == 0:
            window.run("document.querySelector('#unfold').click(); return new Promise(done => setTimeout(done, 200))")
        assert window.console() == [], source


def process_any(directory):
    """Post-process without a look at the metric files: perf_output reads perf-stat's only."""
    from kerneltools import main  # noqa: PLC0415

    assert main.main([str(directory)]) in (0, 1)
