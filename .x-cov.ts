import { readFileSync, readdirSync } from "node:fs";
const seen = new Map<string, Map<string, Set<string>>>();
const failedChecks = new Map<string, Set<string>>(); const allChecks = new Map<string, Set<string>>();
const trials = new Map<string,string>();
for (const r of readdirSync("/tmp/w/runs").slice(-2)) {
  const lines = readFileSync(`/tmp/w/runs/${r}/journal.jsonl`, "utf8").trim().split("\n");
  for (const l of lines) {
    const raw = l.slice(l.indexOf("{"));
    let o: any; try { o = JSON.parse(raw); } catch { continue; }
    if (process.env["S"]) { console.log(raw.slice(0, 400)); if (Math.random() < 0.001) process.exit(); }
    const e = o.event ?? o.body ?? o;
    const trial = o.trial ?? o.trialId ?? e.trial;
    if (e.type === "trial.started") trials.set(r + trial, e.task ?? o.task);
    if (e.type === "step.finished" && e.phase === "verify") {
      const task = (trials.get(r + trial) ?? "?").split("--")[0]!;
      for (const c of e.checks ?? []) {
        const key = `${task} | ${e.step} | ${c.name}`.replaceAll(/\[\d+\]\/steps\[/g, "[*]/steps[");
        (allChecks.get(task) ?? allChecks.set(task, new Set()).get(task)!).add(key);
        if (!c.passed) (failedChecks.get(task) ?? failedChecks.set(task, new Set()).get(task)!).add(key);
      }
    }
  }
}
for (const [t, all] of allChecks) for (const k of all) if (!failedChecks.get(t)?.has(k)) console.log(k);
