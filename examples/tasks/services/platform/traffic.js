import { images } from "./images.js";

/** Number of requests that every service with traffic receives per tick. */
const requestsPerTick = 10;
/** Number of requests that one ready instance can answer per tick. */
const requestsPerInstance = 5;
/** Number of past ticks that the metrics cover. */
const windowTicks = 10;

/** Advances a service by one tick: its rollout continues, then requests arrive and are answered or fail. */
export function passTick(service, tick) {
  service.live ||= Object.keys(service.traffic).some((name) =>
    service.versions[name].instances.some((instance) => isReady(instance, tick)),
  );
  if (!service.live) return;
  moveRollout(service, tick);
  const sample = { tick, byVersion: {} };
  for (const [name, weight] of Object.entries(service.traffic)) {
    const version = service.versions[name];
    const requests = share(version, "due", (requestsPerTick * weight) / 100);
    const errors = requests - answered(version, requests, tick);
    sample.byVersion[name] = { requests, errors };
    service.totals.requests += requests;
    service.totals.errors += errors;
  }
  service.samples.push(sample);
  if (service.samples.length > windowTicks) service.samples.shift();
}

/** Results of requests in the last ticks, in total and by version, and since the service was created. */
export function metricsOf(service) {
  const byVersion = {};
  for (const sample of service.samples) {
    for (const [name, { requests, errors }] of Object.entries(sample.byVersion)) {
      byVersion[name] ??= { requests: 0, errors: 0 };
      byVersion[name].requests += requests;
      byVersion[name].errors += errors;
    }
  }
  const all = Object.values(byVersion);
  const window = {
    requests: all.reduce((sum, { requests }) => sum + requests, 0),
    errors: all.reduce((sum, { errors }) => sum + errors, 0),
  };
  return {
    windowTicks: service.samples.length,
    ...withRate(window),
    byVersion: Object.fromEntries(
      Object.entries(byVersion).map(([name, counts]) => [name, withRate(counts)]),
    ),
    total: withRate(service.totals),
  };
}

function withRate({ requests, errors }) {
  const errorPercent = requests === 0 ? 0 : Math.round((errors / requests) * 1000) / 10;
  return { requests, errors, errorPercent };
}

export function isReady(instance, tick) {
  return instance.readyTick !== null && instance.readyTick <= tick;
}

/** The version that answers the next single request, by weights; undefined if there is no traffic. */
export function routeOne(service) {
  const entries = Object.entries(service.traffic).filter(([, weight]) => weight > 0);
  for (const [name, weight] of entries) service.versions[name].credit += weight;
  const [best] = entries.toSorted(
    ([a], [b]) => service.versions[b].credit - service.versions[a].credit || a.localeCompare(b),
  );
  if (best === undefined) return undefined;
  service.versions[best[0]].credit -= 100;
  return best[0];
}

function answered(version, requests, tick) {
  const ready = version.instances.filter((instance) => isReady(instance, tick));
  const served = Math.min(requests, ready.length * requestsPerInstance);
  return served - share(version, "broken", (served * errorPercentOf(version, ready, tick)) / 100);
}

function errorPercentOf(version, ready, tick) {
  const { errorPercent, leaksAfterTicks } = images[version.image];
  const [first] = ready;
  if (leaksAfterTicks === undefined || first === undefined) return errorPercent;
  return tick - first.readyTick >= leaksAfterTicks ? 50 : errorPercent;
}

/** Integer shares of a fractional rate: 2.5 per tick gives 2, 3, 2, 3. */
function share(version, name, amount) {
  version[name] += amount;
  const whole = Math.floor(version[name] + 1e-9);
  version[name] -= whole;
  return whole;
}

function moveRollout(service, tick) {
  const { rollout } = service;
  if (rollout?.state !== "progressing" || tick < rollout.nextTick) return;
  const target = service.versions[rollout.to];
  if (!target.instances.some((instance) => isReady(instance, tick))) return;
  if (metricsOf(service).errorPercent > rollout.maxErrorPercent) {
    service.traffic = { ...rollout.before };
    rollout.state = "rolled back";
    return;
  }
  const weight = Math.min(100, (service.traffic[rollout.to] ?? 0) + rollout.stepPercent);
  service.traffic = shifted(rollout.before, rollout.to, weight);
  rollout.weight = weight;
  rollout.nextTick = tick + rollout.everyTicks;
  if (weight === 100) rollout.state = "complete";
}

/** Sets the traffic share of one version; the others share the rest in their previous proportions. */
function shifted(before, to, weight) {
  const others = Object.entries(before).filter(([name]) => name !== to);
  const sum = others.reduce((total, [, each]) => total + each, 0);
  const rest = others.map(([name, each]) => [name, (each / sum) * (100 - weight)]);
  return Object.fromEntries([...rest, [to, weight]].filter(([, each]) => each > 0));
}
