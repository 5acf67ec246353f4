"""The results of a `bazel test`, read from its build events (--build_event_json_file)."""

import json
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml


class Outcome:
    """Counts of test cases, and the names of those that did not pass."""

    def __init__(self, passed=0):
        self.passed = passed
        self.targets = 0
        self.cached = 0  # of those, targets that had passed before and were not run again
        self.failures = []  # strings
        self.logs = {}  # path of the log of each test target that failed, by label

    @property
    def failed(self):
        return len(self.failures)

    def fail(self, name, why):
        self.failures.append(f"{name}: {why}")


def read_events(path, exit_code):
    """The Outcome of the invocation that wrote `path` and ended with `exit_code`."""
    outcome = Outcome()
    logs, texts, status, broken, cached = {}, {}, {}, [], set()
    try:
        with open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError) as error:
        events = []
        outcome.fail("bazel", f"left no readable events: {error}")
    for event in events:
        name = event.get("id", {})
        if "testResult" in name and "testResult" in event:
            key = name["testResult"]
            result = event["testResult"]
            if result.get("cachedLocally") or result.get("executionInfo", {}).get("cachedRemotely"):
                cached.add(key["label"])
            for output in result.get("testActionOutput", []):
                if output["name"] == "test.xml":
                    # The last attempt counts.
                    logs.setdefault(key["label"], {})[(key.get("run"), key.get("shard"))] = output["uri"]
                elif output["name"] == "test.log" and result.get("status") != "PASSED":
                    texts[key["label"]] = path_of(output["uri"])
        elif "testSummary" in name and "testSummary" in event:
            status[name["testSummary"]["label"]] = event["testSummary"].get("overallStatus", "NO_STATUS")
        elif "targetCompleted" in name and not event.get("completed", {}).get("success"):
            if name["targetCompleted"].get("aspect", "") == "":
                broken.append(name["targetCompleted"]["label"])
    for label, overall in sorted(status.items()):
        count_target(label, overall, logs.get(label, {}).values(), outcome)
        if overall not in ("PASSED", "FLAKY") and label in texts:
            outcome.logs[label] = texts[label]
    outcome.cached = len(cached)
    for label in broken:
        if status.get(label) not in ("FAILED", "TIMEOUT", "FAILED_TO_BUILD", "INCOMPLETE"):
            outcome.fail(label, "does not build")
    if exit_code != 0 and not outcome.failures:
        outcome.fail("bazel", f"ended with exit code {exit_code}")
    return outcome


def count_target(label, overall, uris, outcome):
    outcome.targets += 1
    before = outcome.failed
    cases = 0
    for uri in uris:
        for name, why in cases_of(uri):
            cases += 1
            if why is None:
                outcome.passed += 1
            else:
                outcome.fail(f"{label} {name}", why)
    if overall not in ("PASSED", "FLAKY") and outcome.failed == before:
        outcome.fail(label, overall.lower().replace("_", " "))
    elif cases == 0 and overall in ("PASSED", "FLAKY"):
        outcome.fail(label, "ran no test case")


def path_of(uri):
    return urllib.request.url2pathname(urllib.parse.urlparse(uri).path)


def cases_of(uri):
    """(name, None, or why it did not pass) of each case in a test.xml. A case left out does not pass: none is skipped
    without a word."""
    try:
        root = xml.parse(path_of(uri)).getroot()
    except (OSError, xml.ParseError) as error:
        return [("test.xml", f"is not readable: {error}")]
    cases = []
    for case in root.iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            cases.append((name, "failed"))
        elif skipped is not None or case.get("result") == "skipped":
            said = "" if skipped is None else (skipped.get("message") or "")
            cases.append((name, "was skipped: " + " ".join(said.split())))
        elif case.get("status") == "notrun":
            cases.append((name, "is disabled"))
        else:
            cases.append((name, None))
    return cases
