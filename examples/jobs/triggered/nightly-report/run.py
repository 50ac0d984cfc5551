# A report of the month that is given as the first argument: python run.py 2026-01 [--format text]
import argparse, calendar, os, sys

parser = argparse.ArgumentParser()
parser.add_argument("month")
parser.add_argument("--title", default="Report")
options = parser.parse_args()
year, month = map(int, options.month.split("-"))
days = calendar.monthrange(year, month)[1]
path = os.path.join(os.environ["WEBJOBS_DATA_PATH"], f"report-{options.month}.txt")
with open(path, "w") as report:
    report.write(f"{options.title}: {days} days\n")
print(f"run {os.environ['WEBJOBS_RUN_ID']} wrote {path}")
print("nothing unusual", file=sys.stderr)
