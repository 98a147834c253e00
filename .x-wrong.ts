import { readFileSync, writeFileSync, readdirSync, rmSync } from "node:fs";
import { parse, stringify } from "yaml";
for (const f of readdirSync(".xmut/tasks")) if (f.endsWith(".yaml")) rmSync(`.xmut/tasks/${f}`);
const c = (tool: string, args: any) => ({ [tool]: { args } });
const N = "{env.NAMESPACE}";
const list: [string, string, "pass" | "fail", (s: any[]) => any[]][] = [
  ["config-edit", "routes", "fail", () => [c("files.edit_file", { path: "{env.FILE}", edits: [{ oldText: '"timeoutMs": 3000', newText: '"timeoutMs": 5000' }, { oldText: '"to": "api"', newText: '"to": "web"' }, { oldText: "2025-01-01T00:00:00Z", newText: "2026-02-03T04:05:06Z" }] })]],
  ["config-edit", "string", "fail", () => [c("files.edit_file", { path: "{env.FILE}", edits: [{ oldText: '"timeoutMs": 3000', newText: '"timeoutMs": "5000"' }, { oldText: "2025-01-01T00:00:00Z", newText: "tomorrow" }] })]],
  ["config-edit", "greeting", "fail", () => [c("files.edit_file", { path: "{env.FILE}", edits: [{ oldText: '"timeoutMs": 3000', newText: '"timeoutMs": 5000' }, { oldText: "{{task.name}}", newText: "{task.name}" }, { oldText: "2025-01-01T00:00:00Z", newText: "2026-02-03T04:05:06Z" }] })]],
  ["config-edit", "layout", "pass", () => [c("files.write_file", { path: "{env.FILE}", content: '{"changedAt":"2026-02-03T04:05:06Z","limits":{"retries":2,"timeoutMs":5e3},"name":"{env.NAME}","greeting":"welcome to {{task.name}}","upstream":"${HOST}:8080","routes":[{"to":"web","path":"/"},{"path":"/api","to":"api"}]}' })]],
  ["database-fix", "nokey", "fail", (s) => [...s.slice(0, 4), c("db.execute_schema_query", { query: "CREATE TABLE o2 AS SELECT * FROM orders" }), c("db.drop_table", { table: "orders" }), c("db.execute_schema_query", { query: "ALTER TABLE o2 RENAME TO orders" })]],
  ["database-audit", "wrote", "fail", (s) => [c("db.execute_write_query", { query: "DELETE FROM customers WHERE id > 4" }), ...s]],
  ["database-audit", "wrong", "fail", () => [c("files.write_file", { path: "{env.REPORT}", content: "mail,ids\nada@example.org,1 3\n" })]],
  ["deploy-and-wait", "wrongdb", "fail", (s) => [c("platform.put_config", { namespace: N, name: "orders", data: { DATABASE_URL: "postgres://other" } }), ...s.slice(2)]],
  ["deploy-and-wait", "few", "fail", (s) => [...s, c("platform.scale_version", { namespace: N, service: "orders", version: "stable", replicas: 1 })]],
  ["handover", "deputy", "pass", (s) => [s[0], s[1], { say: "x" }, c("memory.create_relations", { relations: [{ from: "Grace", to: "{env.DEPUTY}", relationType: "leads" }] }), s[4]]],
  ["handover", "room", "fail", (s) => [...s, c("memory.add_observations", { observations: [{ entityName: "Grace", contents: ["room 4.02"] }] })]],
  ["handover", "kept", "fail", (s) => s.slice(0, 4)],
  ["hard-blue-green-switch", "noblue", "fail", (s) => [...s.slice(0, 4), c("platform.remove_version", { namespace: N, service: "shop", version: "blue" })]],
  ["hard-blue-green-switch", "three", "fail", (s) => [...s, c("platform.scale_version", { namespace: N, service: "shop", version: "green", replicas: 3 })]],
  ["hard-blue-green-switch", "noconfig", "fail", (s) => [c("platform.deploy_version", { namespace: N, service: "shop", version: "green", image: "shop:1.1", replicas: 2 }), ...s.slice(2)]],
  ["hard-blue-green-switch", "steps", "fail", (s) => [s[1], s[2], c("platform.set_traffic", { namespace: N, service: "shop", weights: { green: 50, blue: 50 } }), s[3]]],
  ["hard-blue-green-switch", "rollout", "fail", (s) => [s[1], s[2], c("platform.start_rollout", { namespace: N, service: "shop", to: "green", stepPercent: 50 }), c("platform.wait_for_rollout", { namespace: N, service: "shop" })]],
  ["hard-blue-green-switch", "neighbour", "fail", (s) => [...s, c("platform.scale_version", { namespace: N, service: "search", version: "blue", replicas: 0 })]],
  ["hard-blue-green-switch", "variables", "fail", (s) => [c("platform.put_config", { namespace: N, name: "features", data: { CHECKOUT: "slow" } }), ...s]],
  ["hard-healthy-rollout", "byhand", "pass", (s) => [s[0], s[1], ...[25, 50, 75].map((w) => c("platform.set_traffic", { namespace: N, service: "shop", weights: { v1: 100 - w, v2: w } })), c("platform.set_traffic", { namespace: N, service: "shop", weights: { v2: 100 } }), s[4]]],
  ["hard-healthy-rollout", "atonce", "fail", (s) => [s[0], s[1], c("platform.set_traffic", { namespace: N, service: "shop", weights: { v2: 100 } }), s[4]]],
  ["hard-healthy-rollout", "leak", "fail", (s) => [c("platform.deploy_version", { namespace: N, service: "shop", version: "v2", image: "shop:1.3", replicas: 3 }), ...s.slice(1)]],
  ["hard-healthy-rollout", "bad", "fail", (s) => [c("platform.deploy_version", { namespace: N, service: "shop", version: "x", image: "shop:1.2", replicas: 1 }), c("platform.remove_version", { namespace: N, service: "shop", version: "x" }), ...s]],
  ["hard-healthy-rollout", "starved", "fail", (s) => [c("platform.scale_version", { namespace: N, service: "shop", version: "v1", replicas: 1 }), ...s]],
  ["hard-healthy-rollout", "slowstart", "fail", (s) => [s[0], ...[25, 50, 75].map((w) => c("platform.set_traffic", { namespace: N, service: "shop", weights: { v1: 100 - w, v2: w } })), c("platform.set_traffic", { namespace: N, service: "shop", weights: { v2: 100 } }), s[1], s[4]]],
  ["hard-tenant-onboarding", "extra", "fail", (s) => [...s, c("platform.create_namespace", { name: "red-test" })]],
  ["hard-tenant-onboarding", "template", "fail", (s) => [...s, c("platform.set_quota", { namespace: "template", quota: { instances: 9 } })]],
  ["hard-tenant-onboarding", "role", "fail", (s) => [...s, c("platform.set_member", { namespace: "blue-prod", user: "bo", role: "admin" })]],
  ["hard-tenant-onboarding", "member", "fail", (s) => [...s, c("platform.set_member", { namespace: "blue-prod", user: "zed", role: "viewer" })]],
  ["hard-tenant-onboarding", "quota", "fail", (s) => [...s, c("platform.set_quota", { namespace: "red-dev", quota: { instances: 8 } })]],
  ["hard-tenant-onboarding", "labels", "fail", (s) => JSON.parse(JSON.stringify(s).replace('"stage":"{stage.name}"', '"stage":"dev"'))],
  ["hard-tenant-onboarding", "log", "fail", (s) => JSON.parse(JSON.stringify(s).replace('"{stage.log}"', '"info"'))],
  ["incident-rollback", "replace", "pass", (s) => [s[1], c("platform.remove_version", { namespace: "store", service: "shop", version: "v2" }), c("platform.deploy_version", { namespace: "store", service: "shop", version: "v2", image: "shop:1.1", replicas: 2 }), c("platform.wait_until_ready", { namespace: "store", service: "shop", version: "v2" }), c("platform.set_traffic", { namespace: "store", service: "shop", weights: { v1: 50, v2: 50 } })]],
  ["incident-rollback", "rollout", "pass", () => [c("platform.start_rollout", { namespace: "store", service: "shop", to: "v1", stepPercent: 50, everyTicks: 2, maxErrorPercent: 100 }), c("platform.wait_for_rollout", { namespace: "store", service: "shop" })]],
  ["incident-rollback", "wrongway", "fail", () => [c("platform.set_traffic", { namespace: "store", service: "shop", weights: { v2: 100 } })]],
  ["incident-rollback", "delete", "fail", () => [c("platform.delete_service", { namespace: "store", service: "shop" })]],
  ["incident-rollback", "renamed", "fail", () => [c("platform.deploy_version", { namespace: "store", service: "shop", version: "v3", image: "shop:1.2", replicas: 2 }), c("platform.wait_until_ready", { namespace: "store", service: "shop", version: "v3" }), c("platform.set_traffic", { namespace: "store", service: "shop", weights: { v3: 100 } })]],
  ["knowledge-graph", "forgot", "fail", (s) => [...s, c("memory.delete_entities", { entityNames: ["Charles Babbage"] })]],
  ["knowledge-graph", "more", "fail", (s) => [...s, c("memory.create_entities", { entities: [{ name: "1815", entityType: "year", observations: [] }] })]],
  ["namespace-copy", "moved", "fail", (s) => [...s, c("platform.put_config", { namespace: "{env.FROM}", name: "web", data: { LOG: "info", STAGE: "production" } })]],
  ["namespace-copy", "image", "fail", (s) => JSON.parse(JSON.stringify(s).replace("shop:1.1", "shop:1.0"))],
  ["namespace-copy", "label", "fail", (s) => JSON.parse(JSON.stringify(s).replace("gold", "silver"))],
  ["notes-summary", "more", "fail", (s) => JSON.parse(JSON.stringify(s).replace("- Bela: order paper", "- Bela: order paper\\n- Ada: fix printer"))],
  ["notes-summary", "cleaned", "fail", (s) => [...s, c("files.write_file", { path: "{workspace}/notes/monday.md", content: "" })]],
  ["quota-raise", "both", "fail", (s) => [c("platform.set_quota", { namespace: N, quota: { instances: 8, services: 4 } })]],
  ["quota-raise", "neighbour", "fail", (s) => [...s, c("platform.set_quota", { namespace: "{env.NEIGHBOUR}", quota: { instances: 8 } })]],
  ["log-report", "miscount", "fail", (s) => JSON.parse(JSON.stringify(s).replace("errors: 3", "errors: 4"))],
  ["log-report", "more", "fail", (s) => JSON.parse(JSON.stringify(s).replace("errors: 3", "hello\\nerrors: 3"))],
  ["guided-tour", "guessed", "fail", (s) => [...s.slice(0, -2), { say: "The sum is 42 and it is 5 degrees." }]],
];
for (const [task, label, want, change] of list) { if (process.env['ONLY'] && !process.env['ONLY'].split(' ').includes(label)) continue;
  const doc = parse(readFileSync(`examples/tasks/${task}.yaml`, "utf8"));
  doc.metadata.name = task === "log-report" ? task : `${task}--${label}-${want}`;
  if (task === "log-report") { doc.metadata.name = `${task}--${label}-${want}`; doc.spec.verify[2].command.expect.stdout.json[1].equals = doc.metadata.name; }
  const sol = change(doc.spec.solution);
  const at = sol.findLastIndex((a: any) => "say" in a);
  doc.spec.solution = at === -1 || at === sol.length - 1 || label === "deputy" ? sol : [...sol.slice(0, at), ...sol.slice(at + 1), sol[at]];
  writeFileSync(`.xmut/tasks/${task}--${label}.yaml`, stringify(doc));
}
