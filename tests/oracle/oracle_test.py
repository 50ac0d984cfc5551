#!/usr/bin/python3
"""Compares the ticks of cron schedules with those of independent programs.

  oracle_test.py --binary build/dev/cron_oracle            a seeded sample, a few seconds
  oracle_test.py --binary build/dev/cron_oracle --full     2,000 expressions x 10 years x 40 zones

The calendar is croniter's (Debian's python3-croniter), over naive local times; the zones are those of
Python's zoneinfo; real_times() below connects them by the rule of docs/guides/schedules.md.
Expressions with at most SPARSE ticks in ten years are compared over all of them; denser ones around every
clock change of every zone and on random days, because croniter takes about 20 us for a tick.

Where croniter understands an expression differently or not at all, its input is translated in calendar_of(),
and the reason is given there. What it cannot express (L-n, a list of weekdays with and without #) is not
generated: src/model/cron_test.cc covers it.
"""

import argparse
import bisect
import calendar
import datetime
import multiprocessing
import random
import subprocess
import sys
import time
import zoneinfo

try:
    from croniter import CroniterBadDateError, croniter
except ImportError:
    sys.exit("oracle_test: needs the package python3-croniter (and /usr/bin/python3)")

ZONES = """UTC Europe/Berlin Europe/London Europe/Dublin Europe/Lisbon Europe/Moscow Europe/Istanbul
Europe/Chisinau Europe/Volgograd Africa/Casablanca Africa/Cairo Africa/Johannesburg Africa/Khartoum
America/New_York America/Chicago America/Phoenix America/Los_Angeles America/St_Johns America/Halifax
America/Havana America/Sao_Paulo America/Santiago America/Asuncion America/Mexico_City America/Nuuk
America/Caracas Asia/Kolkata Asia/Kathmandu Asia/Tehran Asia/Gaza Asia/Amman Asia/Tokyo Asia/Pyongyang
Australia/Sydney Australia/Lord_Howe Pacific/Auckland Pacific/Chatham Pacific/Apia Pacific/Kiritimati
Antarctica/Troll""".split()
# Ten years each: the missing day of Apia and many changes of invariant; today; after the end of what the
# compiled zones list.
FIRST_YEARS = (2006, 2021, 2034)
YEARS = 10
SPARSE = 1500          # ticks in ten years, by estimate
AROUND_CHANGE = 2 * 3600
RANDOM_DAYS = 3
DAY = 86400

WEEKDAYS = "sun mon tue wed thu fri sat".split()
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


# -- zones


class Zone:
    """The offsets of a zone, found by asking zoneinfo."""

    def __init__(self, name, first_year):
        zone = zoneinfo.ZoneInfo(name)

        def offset(t):
            moment = datetime.datetime.fromtimestamp(t, datetime.timezone.utc).astimezone(zone)
            return int(moment.utcoffset().total_seconds())

        self.name = name
        self.begin = int(datetime.datetime(first_year, 1, 1, tzinfo=datetime.timezone.utc).timestamp())
        self.end = int(datetime.datetime(first_year + YEARS, 1, 1,
                                         tzinfo=datetime.timezone.utc).timestamp())
        t = self.begin - 3 * DAY
        self.begins, self.offsets = [t], [offset(t)]
        while t < self.end + 3 * DAY:
            after = t + DAY // 4
            if offset(after) != self.offsets[-1]:
                low, high = t, after
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if offset(middle) == self.offsets[-1] else (low, middle)
                self.begins.append(high)
                self.offsets.append(offset(high))
            t = after
        self.changes = [b for b in self.begins[1:] if self.begin + DAY <= b < self.end - DAY]

    def local_range(self, begin, end):
        """Local times that can be shown from begin to end, or are skipped by a change at begin or later."""
        first = max(0, bisect.bisect_right(self.begins, begin - 1) - 1)
        last = bisect.bisect_right(self.begins, end)
        near = self.offsets[first:last]
        return begin + min(near), end + max(near)

    def real_times(self, local, every_hour):
        """Our rule: when does a schedule run whose calendar says `local`?"""
        near = max(0, bisect.bisect_right(self.begins, local - 26 * 3600) - 1)
        found, after_gap = [], None
        for i in range(near, len(self.begins)):
            if self.begins[i] > local + 26 * 3600:
                break
            t = local - self.offsets[i]
            if t >= self.begins[i] and (i + 1 == len(self.begins) or t < self.begins[i + 1]):
                found.append(t)                  # a clock shows it
            elif t < self.begins[i] and i > 0 and local >= self.begins[i] + self.offsets[i - 1]:
                after_gap = self.begins[i]       # the clock goes past it here
        if every_hour:
            return found                         # every real hour, none moved
        return found[:1] if found else [after_gap]  # the first time, or right after the gap


# -- expressions


def any_field(rng, low, high, names=None):
    def value(v):
        return names[v - low] if names and rng.random() < 0.3 else str(v)

    a = rng.randint(low, high)
    b = rng.randint(a, high)
    step = rng.randint(1, max(2, (high - low) // 2))
    kind = rng.random()
    if kind < 0.45:
        return value(a)
    if kind < 0.60:
        return ",".join(value(v) for v in sorted(rng.sample(range(low, high + 1), rng.randint(2, 4))))
    if kind < 0.75:
        return f"{value(a)}-{value(b)}"
    if kind < 0.80 and a < b:
        return f"{b}-{a}/{step}" if rng.random() < 0.5 else f"{value(b)}-{value(a)}"  # across the end
    if kind < 0.87:
        return f"*/{step}"
    if kind < 0.95:
        return f"{a}-{b}/{step}"
    return f"{a}/{step}"


def any_expression(rng):
    minute = "*" if rng.random() < 0.1 else any_field(rng, 0, 59)
    # Hours of clock changes more often than others.
    hour = ("*" if rng.random() < 0.2 else
            rng.choice(["0", "1", "2", "3", "0-3", "1,2,3", "0/2", "2-23"]) if rng.random() < 0.5 else
            any_field(rng, 0, 23))
    kind = rng.random()
    day = ("*" if kind < 0.45 else "?" if kind < 0.5 else "L" if kind < 0.56 else
           f"{rng.randint(1, 28)},L" if kind < 0.6 else f"{rng.randint(1, 31)}W" if kind < 0.66 else
           "LW" if kind < 0.68 else any_field(rng, 1, 31))
    month = "*" if rng.random() < 0.6 else any_field(rng, 1, 12, MONTHS)
    kind = rng.random()
    weekday = ("*" if kind < 0.45 else "?" if kind < 0.5 else
               f"{rng.randint(0, 6)}#{rng.randint(1, 5)}" if kind < 0.57 else
               f"{rng.randint(0, 6)}L" if kind < 0.61 else f"1-5#{rng.randint(1, 4)}" if kind < 0.63 else
               "7" if kind < 0.66 else any_field(rng, 0, 6, WEEKDAYS))
    fields = [minute, hour, day, month, weekday]
    if rng.random() < 0.1:  # six fields, seconds first
        fields.insert(0, str(rng.randint(0, 59)) if rng.random() < 0.8 else "0,30")
    return " ".join(fields)


def covers_all(field, low, high):
    if "#" in field or "L" in field.upper() or "W" in field:
        return False
    try:
        index = 2 if high == 31 else 4
        text = ["*"] * 5
        text[index] = field
        return croniter.expand(" ".join(text))[0][index] == ["*"]
    except Exception:
        return False


def value_of(text, low, names):
    return names.index(text) + low if text in names else int(text)


def ascending(field, low, high, names=()):
    """croniter refuses a range that goes backwards: "22-2" as a list."""
    first, dash, rest = field.partition("-")
    if not dash or "#" in field or "L" in field:
        return field
    last, _, step = rest.partition("/")
    first, last = value_of(first, low, names), value_of(last, low, names)
    if first <= last:
        return field
    span = high - low + 1
    values = range(first, last + span + 1, int(step or 1))
    return ",".join(str((v - low) % span + low) for v in values)


def nearest_weekday(date, target):
    """Whether W with the day `target` ("L": the last) names `date`: the nearest Monday to Friday of its month."""
    length = calendar.monthrange(date.year, date.month)[1]
    target = length if target == "L" else int(target)
    if target > length:
        return False
    days = [d for d in range(1, length + 1) if calendar.weekday(date.year, date.month, d) < 5]
    return date.day == min(days, key=lambda d: abs(d - target))


def calendar_of(expression):
    """What to ask croniter: (expression, day_or, W) triples, whose times are to be united; with W only those
    of the days that it names count."""
    fields = expression.replace("?", "*").split()
    second = [fields.pop(0)] if len(fields) == 6 else []  # croniter has seconds last
    minute, hour, day, month, weekday = fields
    minute, hour, day = ascending(minute, 0, 59), ascending(hour, 0, 23), ascending(day, 1, 31)
    month, weekday = ascending(month, 1, 12, MONTHS), ascending(weekday, 0, 6, WEEKDAYS)
    if second:
        second = [ascending(second[0], 0, 59)]
        weekday = weekday.replace("7", "0")  # croniter knows 7 only where there are five fields
    # croniter takes "1/3" in day-of-week to 7, which is Sunday once more. The week ends with 6: by POSIX
    # the field has the values 0 to 6 (7 comes from vixie cron and only counts where it is written).
    if "/" in weekday and weekday[0].isdigit() and "-" not in weekday:
        start, step = weekday.split("/")
        weekday = f"{start}-6/{step}"
    # The last Friday is 5L here and in Quartz, L5 in croniter.
    if weekday.upper().endswith("L"):
        weekday = "L" + weekday[:-1]
    # croniter knows no range before #.
    if weekday.startswith("1-5#"):
        weekday = ",".join(f"{d}{weekday[3:]}" for d in range(1, 6))

    def ask(d, w, day_or):
        # croniter knows no W: it is asked for all days.
        near = d[:-1] if d.endswith("W") else None
        return " ".join([minute, hour, "*" if near else d, month, w] + second), day_or, near

    # NCRONTAB: both days must match.
    if second:
        return [ask(day, weekday, False)]
    either = not day.startswith("*") and not weekday.startswith("*")
    if not either:
        # croniter ORs "*/2" with a weekday; vixie cron and its heirs take a field that begins with * as
        # not restricted, so both must match.
        return [ask(day, weekday, False)]
    # croniter takes a list of all values ("1-31") for *, and ANDs. POSIX: what is not an asterisk is a
    # restriction, either is enough, and all days match.
    if covers_all(day, 1, 31) or covers_all(weekday, 0, 6):
        return [ask("*", "*", True)]
    # croniter applies # and L of the weekday also where it looks for the day of the month alone, so that
    # days of the month that are not such weekdays are lost. Asked one after the other, it is right.
    if "#" in weekday or "L" in weekday or "W" in day:
        return [ask(day, "*", True), ask("*", weekday, True)]
    return [ask(day, weekday, True)]


def local_times(asked, begin, end, limit=None):
    """Sorted naive local times in [begin, end]; None = more than limit."""
    # croniter overshoots February: for "1,31" it goes from 22 February by 31 - 22 days to 3 March and loses the
    # 1st. Started again from every 1 March, it is right.
    firsts = [int(datetime.datetime(year, 3, 1, tzinfo=datetime.timezone.utc).timestamp())
              for year in range(2000, 2100)]
    borders = [begin] + [t for t in firsts if begin < t <= end] + [end + 1]
    times = set()
    for expression, day_or, near in asked:
        for first, after in zip(borders, borders[1:]):
            iterator = croniter(expression, first - 1, ret_type=float, day_or=day_or)
            while True:
                try:
                    t = int(iterator.get_next())
                except CroniterBadDateError:
                    break
                if t >= after:
                    break
                if near and not nearest_weekday(datetime.datetime.fromtimestamp(t, datetime.timezone.utc), near):
                    continue
                times.add(t)
                if limit is not None and len(times) > limit:
                    return None
    return sorted(times)


# -- comparing


def merged(ranges):
    out = []
    for begin, end in sorted(ranges):
        if out and begin <= out[-1][1] + 60:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


class Comparer:
    def __init__(self, binary, zones):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.zones = {year: [Zone(name, year) for name in zones] for year in FIRST_YEARS}

    def ours(self, zone, expression, windows):
        text = ",".join(f"{begin}-{end}" for begin, end in windows)
        self.process.stdin.write(f"{zone.name}|{expression}|{text}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        if answer.startswith("refused"):
            return answer
        return [[int(t) for t in part.split()] for part in answer.split(",")[:-1]]

    def compare(self, seed):
        """(what was compared, difference or None)"""
        rng = random.Random(seed)
        expression = any_expression(rng)
        asked = calendar_of(expression)
        zones = self.zones[rng.choice(FIRST_YEARS)]
        begin, end = zones[0].begin, zones[0].end
        refused = self.ours(zones[0], expression, [])
        if isinstance(refused, str):
            never = local_times(asked, begin, begin + 40 * 366 * DAY, 1) == []
            counts = {"impossible": 1, "ticks": 0, "pairs": 0}
            return counts, None if never else f"{expression}: {refused}, and croniter knows times"
        locals_ = local_times(asked, begin - 2 * DAY, end + 2 * DAY, SPARSE)
        dense = locals_ is None
        days = [begin + rng.randrange(2, YEARS * 365 - 2) * DAY for _ in range(RANDOM_DAYS)]
        windows = {}
        for zone in zones:
            wanted = [(begin, end)]
            if dense:
                wanted = [(t - AROUND_CHANGE, t + AROUND_CHANGE) for t in zone.changes]
                wanted += [(t, t + DAY // 4) for t in days]
            windows[zone.name] = [tuple(w) for w in merged(wanted)]
            # Asked in the middle of an hour that comes twice, too.
            windows[zone.name] += [(t + rng.randrange(3600), t + AROUND_CHANGE) for t in zone.changes]
        if dense:
            ranges = merged(zone.local_range(*w) for zone in zones for w in windows[zone.name])
            locals_ = [t for r in ranges for t in local_times(asked, *r)]
        every_hour = expression.split()[-4].startswith("*")
        counts = {"dense" if dense else "sparse": 1, "ticks": 0, "pairs": len(zones)}
        for zone in zones:
            answer = self.ours(zone, expression, windows[zone.name])
            for (w_begin, w_end), ticks in zip(windows[zone.name], answer):
                low, high = zone.local_range(w_begin, w_end)
                near = locals_[bisect.bisect_left(locals_, low):bisect.bisect_right(locals_, high)]
                expected = sorted({t for local in near for t in zone.real_times(local, every_hour)
                                   if w_begin <= t < w_end})
                counts["ticks"] += len(ticks)
                if ticks != expected:
                    return counts, describe(expression, zone, ticks, expected)
        return counts, None


def describe(expression, zone, ticks, expected):
    def text(times):
        return ", ".join(datetime.datetime.fromtimestamp(t, datetime.timezone.utc)
                         .astimezone(zoneinfo.ZoneInfo(zone.name)).isoformat() for t in sorted(times)[:5])

    return (f"{expression} in {zone.name}: only ours: {text(set(ticks) - set(expected))}; "
            f"only the oracle's: {text(set(expected) - set(ticks))}")


def work(task):
    binary, zones, seeds = task
    comparer = Comparer(binary, zones)
    totals, differences = {}, []
    for seed in seeds:
        counts, difference = comparer.compare(seed)
        for key, n in counts.items():
            totals[key] = totals.get(key, 0) + n
        if difference:
            differences.append(f"seed {seed}: {difference}")
    comparer.process.stdin.close()
    comparer.process.wait()
    return totals, differences


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--binary", required=True)
    options.add_argument("--full", action="store_true")
    options.add_argument("--expressions", type=int, default=0)
    options.add_argument("--first-seed", type=int, default=1)
    options.add_argument("--processes", type=int, default=2)
    args = options.parse_args()
    count = args.expressions or (2000 if args.full else 40)
    zones = ZONES if args.full else ZONES[1:2] + ZONES[3::6]
    assert len(ZONES) == 40
    started = time.monotonic()
    seeds = range(args.first_seed, args.first_seed + count)
    chunks = [seeds[i::args.processes * 4] for i in range(args.processes * 4)]
    totals, differences = {}, []
    with multiprocessing.Pool(args.processes) as pool:
        for some, found in pool.imap_unordered(work, [(args.binary, zones, c) for c in chunks if c]):
            for key, n in some.items():
                totals[key] = totals.get(key, 0) + n
            differences += found
            for difference in found:
                print("DIFFERENT", difference, flush=True)
    print(f"{count} expressions ({totals.get('sparse', 0)} over all of ten years, {totals.get('dense', 0)} around "
          f"clock changes and on random days, {totals.get('impossible', 0)} that never come), {len(zones)} zones, "
          f"{totals.get('ticks', 0)} ticks compared, {len(differences)} differences, "
          f"{time.monotonic() - started:.0f} s")
    # A run that compared nothing proves nothing.
    sys.exit(1 if differences or totals.get("ticks", 0) < 100 * count else 0)


if __name__ == "__main__":
    main()
