import { createServer } from "node:http";
import { invalid, notFound, Problem } from "./problem.js";

/** An HTTP server for the platform's operations. The caller makes it listen. */
export function createHttpApi(platform) {
  const routes = routesOf(platform).map(([method, path, handle]) => ({
    method,
    pattern: new RegExp(`^${path.replaceAll(/:(\w+)/g, "(?<$1>[^/]+)")}$`),
    handle,
  }));
  return createServer((request, response) => {
    answer(routes, request).then(
      ({ status, body, headers = {} }) => send(response, status, body, headers),
      (error) => {
        const { status, code, message } = error instanceof Problem ? error : unexpected(error);
        send(response, status, { error: { code, message } });
      },
    );
  });
}

function routesOf(p) {
  const ns = "/v1/namespaces/:ns";
  const svc = `${ns}/services/:svc`;
  return [
    ["GET", "/healthz", () => ok({ status: "ok" })],
    ["GET", "/v1/images", () => ok(p.images())],
    ["GET", "/v1/snapshot", () => ok(p.snapshot())],
    ["GET", "/v1/namespaces", () => ok(p.listNamespaces())],
    ["POST", "/v1/namespaces", (_at, body) => created(p.createNamespace(body))],
    ["GET", ns, (at) => ok(p.getNamespace(at.ns))],
    ["DELETE", ns, (at) => ok(p.deleteNamespace(at.ns))],
    ["PUT", `${ns}/quota`, (at, body) => ok(p.setQuota(at.ns, body))],
    ["GET", `${ns}/events`, (at) => ok(p.listEvents(at.ns))],
    ["GET", `${ns}/members`, (at) => ok(p.listMembers(at.ns))],
    ["PUT", `${ns}/members/:user`, (at, body) => ok(p.setMember(at.ns, at.user, body.role))],
    ["DELETE", `${ns}/members/:user`, (at) => ok(p.removeMember(at.ns, at.user))],
    ["GET", `${ns}/configs/:config`, (at) => ok(p.getConfig(at.ns, at.config))],
    ["PUT", `${ns}/configs/:config`, (at, body) => ok(p.putConfig(at.ns, at.config, body.data))],
    ["DELETE", `${ns}/configs/:config`, (at) => ok(p.deleteConfig(at.ns, at.config))],
    ["GET", svc, (at) => ok(p.getService(at.ns, at.svc))],
    ["DELETE", svc, (at) => ok(p.deleteService(at.ns, at.svc))],
    [
      "PUT",
      `${svc}/versions/:version`,
      (at, body) => created(p.deployVersion(at.ns, at.svc, at.version, body)),
    ],
    [
      "PATCH",
      `${svc}/versions/:version`,
      (at, body) => ok(p.scaleVersion(at.ns, at.svc, at.version, body.replicas)),
    ],
    ["DELETE", `${svc}/versions/:version`, (at) => ok(p.removeVersion(at.ns, at.svc, at.version))],
    ["PUT", `${svc}/traffic`, (at, body) => ok(p.setTraffic(at.ns, at.svc, body.weights))],
    ["PUT", `${svc}/rollout`, (at, body) => ok(p.startRollout(at.ns, at.svc, body))],
    ["DELETE", `${svc}/rollout`, (at) => ok(p.abortRollout(at.ns, at.svc))],
    ["GET", `${svc}/metrics`, (at) => ok(p.metrics(at.ns, at.svc))],
    ["POST", `${svc}/instances/:id/exec`, (at, body) => ok(p.exec(at.ns, at.svc, at.id, body.command ?? []))],
    [
      "GET",
      "/route/:ns/:svc",
      (at) => {
        const routed = p.route(at.ns, at.svc);
        return { ...ok(routed), headers: { "x-version": routed.version } };
      },
    ],
  ];
}

const ok = (body) => ({ status: 200, body });
const created = (body) => ({ status: 201, body });

async function answer(routes, request) {
  const { pathname } = new URL(request.url ?? "/", "http://localhost");
  const fitting = routes.filter(({ pattern }) => pattern.test(pathname));
  if (fitting.length === 0) throw notFound(`resource ${pathname}`);
  const route = fitting.find(({ method }) => method === request.method);
  if (route === undefined)
    throw new Problem(
      405,
      "method_not_allowed",
      `${pathname} takes ${fitting.map((each) => each.method).join(", ")}`,
    );
  const { groups = {} } = route.pattern.exec(pathname) ?? {};
  const at = Object.fromEntries(
    Object.entries(groups).map(([name, value]) => [name, decodeURIComponent(value)]),
  );
  return route.handle(at, await bodyOf(request));
}

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString("utf8");
  if (text === "") return {};
  try {
    const body = JSON.parse(text);
    if (typeof body === "object" && body !== null) return body;
  } catch (cause) {
    throw Object.assign(invalid("the body is not JSON"), { cause });
  }
  throw invalid("the body must be a JSON object");
}

function send(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(`${JSON.stringify(body)}\n`);
}

function unexpected(error) {
  console.error(error);
  return { status: 500, code: "internal", message: String(error) };
}
