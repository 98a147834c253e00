import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { parse, stringify } from "yaml";
for (const f of readdirSync("examples/tasks").filter((f) => f.endsWith(".yaml") && f !== "judged-answer.yaml")) {
  const text = readFileSync(`examples/tasks/${f}`, "utf8");
  const doc = parse(text);
  let n = 0;
  // drop each action, also inside foreach
  const paths: any[] = [];
  const walk = (list: any[], path: any[]) => list.forEach((a, i) => {
    const key = Object.keys(a)[0]!;
    if (key === "say") { if (f.startsWith("guided")) paths.push([...path, i]); return; }
    paths.push([...path, i]);
    if (key === "foreach") walk(a.foreach.steps, [...path, i, "foreach", "steps"]);
  });
  walk(doc.spec.solution, []);
  for (const p of paths) {
    const d = structuredClone(doc);
    let at = d.spec.solution;
    for (const k of p.slice(0, -1)) at = at[k];
    if (at.length === 1) continue;
    const [gone] = at.splice(p.at(-1), 1);
    d.metadata.name = `${doc.metadata.name}--no-${Object.keys(gone)[0]}-${n}`;
    writeFileSync(`.xmut/tasks/${doc.metadata.name}--${n++}.yaml`, stringify(d));
  }
}
