import { images } from "./images.js";
import { conflict, invalid, notFound, Problem } from "./problem.js";
import { isReady, metricsOf, passTick, routeOne } from "./traffic.js";

const defaultQuota = { services: 5, instances: 10 };
const roles = ["viewer", "editor", "admin"];

/** The state of the platform and its operations. Methods throw Problem. */
export class Platform {
  #clock;
  #namespaces = new Map();
  #tick = 0;

  constructor(clock) {
    this.#clock = clock;
  }

  /** Advances the state to the current time. Only this method reads the clock. */
  #now() {
    const target = this.#clock.tick;
    for (; this.#tick < target; this.#tick++) {
      for (const { services } of this.#namespaces.values()) {
        for (const service of services.values()) passTick(service, this.#tick);
      }
    }
    return this.#tick;
  }

  images() {
    const items = Object.entries(images).map(([name, { about, startTicks, needs }]) => ({
      name,
      about,
      startTicks,
      needs,
    }));
    return { items };
  }

  listNamespaces() {
    return { items: [...this.#namespaces.values()].map((namespace) => namespaceView(namespace)) };
  }

  createNamespace({ name, labels = {}, quota = {} }) {
    if (typeof name !== "string" || !/^[a-z][a-z0-9-]{0,39}$/.test(name))
      throw invalid(
        `${JSON.stringify(name)} is no name: a lower-case letter, then letters, digits and hyphens`,
      );
    if (this.#namespaces.has(name)) throw conflict(`the namespace ${name} is already there`);
    const namespace = {
      name,
      labels: { ...labels },
      quota: checkedQuota({ ...defaultQuota, ...quota }),
      members: new Map(),
      configs: new Map(),
      services: new Map(),
      events: [],
    };
    this.#namespaces.set(name, namespace);
    this.#note(namespace, "NamespaceCreated", name);
    return namespaceView(namespace);
  }

  getNamespace(name) {
    return namespaceView(this.#namespace(name));
  }

  deleteNamespace(name) {
    this.#namespace(name);
    this.#namespaces.delete(name);
    return { deleted: name };
  }

  setQuota(name, quota) {
    const namespace = this.#namespace(name);
    const next = checkedQuota({ ...namespace.quota, ...quota });
    const used = usageOf(namespace);
    if (used.services > next.services || used.instances > next.instances)
      throw conflict(`${name} already uses ${used.services} services and ${used.instances} instances`);
    namespace.quota = next;
    this.#note(namespace, "QuotaChanged", `${next.services} services, ${next.instances} instances`);
    return namespaceView(namespace);
  }

  listMembers(name) {
    return { items: membersOf(this.#namespace(name)) };
  }

  setMember(name, user, role) {
    const namespace = this.#namespace(name);
    if (!roles.includes(role)) throw invalid(`the role must be one of ${roles.join(", ")}`);
    namespace.members.set(user, role);
    this.#note(namespace, "MemberSet", `${user}: ${role}`);
    return { user, role };
  }

  removeMember(name, user) {
    const namespace = this.#namespace(name);
    if (!namespace.members.delete(user)) throw notFound(`member ${user} in ${name}`);
    this.#note(namespace, "MemberRemoved", user);
    return { removed: user };
  }

  getConfig(name, config) {
    const data = this.#namespace(name).configs.get(config);
    if (data === undefined) throw notFound(`config ${config} in ${name}`);
    return { name: config, data };
  }

  putConfig(name, config, data) {
    const namespace = this.#namespace(name);
    if (typeof data !== "object" || data === null || !Object.values(data).every((v) => typeof v === "string"))
      throw invalid("data must be an object of texts");
    namespace.configs.set(config, { ...data });
    this.#note(namespace, "ConfigPut", config);
    return { name: config, data };
  }

  deleteConfig(name, config) {
    const namespace = this.#namespace(name);
    if (!namespace.configs.delete(config)) throw notFound(`config ${config} in ${name}`);
    this.#note(namespace, "ConfigDeleted", config);
    return { deleted: config };
  }

  /** Creates a version. The first one also creates its service and gets all the traffic. */
  deployVersion(name, serviceName, version, { image, replicas = 1, configs = [] }) {
    const tick = this.#now();
    const namespace = this.#namespace(name);
    if (!Object.hasOwn(images, image)) throw notFound(`image ${String(image)}; images lists them`);
    for (const config of configs) this.getConfig(name, config);
    const service = namespace.services.get(serviceName);
    if (service !== undefined && Object.hasOwn(service.versions, version))
      throw conflict(`${serviceName} already has a version ${version}; remove it first or scale it`);
    const used = usageOf(namespace);
    if (service === undefined && used.services >= namespace.quota.services)
      throw conflict(`the quota of ${name} allows ${namespace.quota.services} services`);
    checkInstances(namespace, replicas);
    const made = service ?? this.#createService(namespace, serviceName);
    made.versions[version] = { image, configs: [...configs], instances: [], due: 0, broken: 0, credit: 0 };
    this.#addInstances({ namespace, service: made, version, count: replicas, tick });
    if (service === undefined) made.traffic = { [version]: 100 };
    this.#note(namespace, "VersionDeployed", `${serviceName} ${version} (${image})`);
    return this.getService(name, serviceName);
  }

  scaleVersion(name, serviceName, version, replicas) {
    const tick = this.#now();
    const namespace = this.#namespace(name);
    const { service, found } = this.#version(name, serviceName, version);
    const more = replicas - found.instances.length;
    checkInstances(namespace, Math.max(0, more), replicas);
    if (more < 0) found.instances.length = replicas;
    else this.#addInstances({ namespace, service, version, count: more, tick });
    this.#note(namespace, "VersionScaled", `${serviceName} ${version} to ${replicas}`);
    return this.getService(name, serviceName);
  }

  removeVersion(name, serviceName, version) {
    this.#now();
    const { service } = this.#version(name, serviceName, version);
    if ((service.traffic[version] ?? 0) > 0)
      throw conflict(`${version} still gets ${service.traffic[version]} % of the traffic of ${serviceName}`);
    delete service.versions[version];
    this.#note(this.#namespace(name), "VersionRemoved", `${serviceName} ${version}`);
    return this.getService(name, serviceName);
  }

  deleteService(name, serviceName) {
    const namespace = this.#namespace(name);
    this.#service(name, serviceName);
    namespace.services.delete(serviceName);
    this.#note(namespace, "ServiceDeleted", serviceName);
    return { deleted: serviceName };
  }

  setTraffic(name, serviceName, weights) {
    this.#now();
    const service = this.#service(name, serviceName);
    const entries = Object.entries(weights ?? {});
    for (const [version] of entries) this.#version(name, serviceName, version);
    if (!entries.every(([, weight]) => Number.isInteger(weight) && weight >= 0))
      throw invalid("weights must be whole numbers that are not negative");
    const sum = entries.reduce((total, [, weight]) => total + weight, 0);
    if (sum !== 100) throw invalid(`the weights must add up to 100, these add up to ${sum}`);
    if (service.rollout?.state === "progressing")
      throw conflict(`a rollout to ${service.rollout.to} is going on; abort it first`);
    service.traffic = Object.fromEntries(entries.filter(([, weight]) => weight > 0));
    this.#note(this.#namespace(name), "TrafficSet", `${serviceName} ${JSON.stringify(service.traffic)}`);
    return this.getService(name, serviceName);
  }

  startRollout(name, serviceName, { to, stepPercent = 20, everyTicks = 5, maxErrorPercent = 5 }) {
    const tick = this.#now();
    const { service } = this.#version(name, serviceName, to);
    if (service.rollout?.state === "progressing")
      throw conflict(`a rollout to ${service.rollout.to} is going on`);
    if ((service.traffic[to] ?? 0) === 100) throw conflict(`${to} already gets all the traffic`);
    const before = { ...service.traffic };
    const weight = before[to] ?? 0;
    const state = "progressing";
    service.rollout = { to, state, weight, stepPercent, everyTicks, maxErrorPercent, before, nextTick: tick };
    this.#note(this.#namespace(name), "RolloutStarted", `${serviceName} to ${to}`);
    return this.getService(name, serviceName);
  }

  abortRollout(name, serviceName) {
    this.#now();
    const service = this.#service(name, serviceName);
    if (service.rollout?.state !== "progressing") throw conflict(`no rollout of ${serviceName} is going on`);
    service.traffic = { ...service.rollout.before };
    service.rollout.state = "aborted";
    this.#note(this.#namespace(name), "RolloutAborted", serviceName);
    return this.getService(name, serviceName);
  }

  getService(name, serviceName) {
    const tick = this.#now();
    return serviceView(this.#service(name, serviceName), tick);
  }

  metrics(name, serviceName) {
    this.#now();
    return metricsOf(this.#service(name, serviceName));
  }

  listEvents(name) {
    return { items: this.#namespace(name).events };
  }

  /** Runs `env`, `printenv NAME` or `image` inside a ready instance. */
  exec(name, serviceName, id, command) {
    const tick = this.#now();
    const service = this.#service(name, serviceName);
    for (const [version, { instances, image }] of Object.entries(service.versions)) {
      const instance = instances.find((each) => each.id === id);
      if (instance === undefined) continue;
      if (!isReady(instance, tick)) throw conflict(`instance ${id} is not ready`);
      return execIn({ instance, version, image }, command);
    }
    throw notFound(`instance ${id} of ${serviceName}`);
  }

  /** One request from outside: returns the version and instance that answer it. */
  route(name, serviceName) {
    const tick = this.#now();
    const service = this.#service(name, serviceName);
    const version = routeOne(service);
    const ready = (service.versions[version]?.instances ?? []).filter((each) => isReady(each, tick));
    if (ready.length === 0) throw new Problem(503, "unavailable", `no instance of ${serviceName} is ready`);
    return { service: serviceName, version, image: service.versions[version].image };
  }

  /** The requested configuration, without anything that changes over time. */
  snapshot() {
    const items = [...this.#namespaces.values()].map((namespace) => ({
      ...namespaceView(namespace),
      members: membersOf(namespace),
      configs: Object.fromEntries(namespace.configs),
      services: [...namespace.services.values()].map(({ name, traffic, versions }) => ({
        name,
        traffic,
        versions: Object.entries(versions).map(([version, { image, instances, configs }]) => ({
          version,
          image,
          replicas: instances.length,
          configs,
        })),
      })),
    }));
    return { namespaces: items };
  }

  /** Resolves with the service once the test holds; throws Problem 504 after the given number of ticks. */
  async waitFor(name, serviceName, { until, what, ticks }) {
    for (const end = this.#now() + ticks; ; await this.#clock.next()) {
      const view = this.getService(name, serviceName);
      if (until(view)) return view;
      if (this.#tick >= end)
        throw new Problem(504, "timeout", `${serviceName}: ${what} after ${ticks} ticks`);
    }
  }

  #namespace(name) {
    const namespace = this.#namespaces.get(name);
    if (namespace === undefined) throw notFound(`namespace ${name}`);
    return namespace;
  }

  #service(name, serviceName) {
    const service = this.#namespace(name).services.get(serviceName);
    if (service === undefined) throw notFound(`service ${serviceName} in ${name}`);
    return service;
  }

  #version(name, serviceName, version) {
    const service = this.#service(name, serviceName);
    if (!Object.hasOwn(service.versions, version)) throw notFound(`version ${version} of ${serviceName}`);
    return { service, found: service.versions[version] };
  }

  #createService(namespace, name) {
    const service = {
      name,
      versions: {},
      traffic: {},
      rollout: null,
      samples: [],
      totals: { requests: 0, errors: 0 },
      /** Number of instances created so far, for their names. */
      made: 0,
      /** Requests arrive as soon as one instance can answer. */
      live: false,
    };
    namespace.services.set(name, service);
    return service;
  }

  #addInstances({ namespace, service, version, count, tick }) {
    const { image, configs, instances } = service.versions[version];
    const { startTicks, needs } = images[image];
    const env = Object.assign({}, ...configs.map((config) => namespace.configs.get(config)));
    const missing = needs.filter((variable) => !Object.hasOwn(env, variable));
    for (let made = 0; made < count; made++) {
      service.made += 1;
      const id = `${service.name}-${version}-${service.made}`;
      const readyTick = missing.length > 0 ? null : tick + startTicks;
      const reason = missing.length > 0 ? `${missing.join(", ")} not configured` : null;
      instances.push({ id, readyTick, reason, env });
    }
  }

  #note(namespace, type, message) {
    namespace.events.push({ number: namespace.events.length + 1, tick: this.#tick, type, message });
  }
}

function checkedQuota(quota) {
  const { services, instances, ...others } = quota;
  const whole = [services, instances].every((each) => Number.isInteger(each) && each >= 0);
  if (!whole || Object.keys(others).length > 0)
    throw invalid("a quota has services and instances, whole numbers that are not negative");
  return { services, instances };
}

function checkInstances(namespace, more, replicas = more) {
  if (!Number.isInteger(replicas) || replicas < 0)
    throw invalid("replicas must be a whole number, 0 or more");
  const { instances } = usageOf(namespace);
  const allowed = namespace.quota.instances;
  if (instances + more > allowed)
    throw conflict(
      `the quota of ${namespace.name} allows ${allowed} instances; ${instances} exist, ${more} more were asked for`,
    );
}

function usageOf({ services }) {
  const versions = [...services.values()].flatMap((service) => Object.values(service.versions));
  return {
    services: services.size,
    instances: versions.reduce((sum, { instances }) => sum + instances.length, 0),
  };
}

function membersOf({ members }) {
  const items = [...members].map(([user, role]) => ({ user, role }));
  return items.toSorted((a, b) => a.user.localeCompare(b.user));
}

function namespaceView(namespace) {
  const { name, labels, quota, configs, services, members } = namespace;
  return {
    name,
    labels,
    quota,
    usage: usageOf(namespace),
    configs: [...configs.keys()].toSorted(),
    services: [...services.keys()].toSorted(),
    members: [...members.keys()].toSorted(),
  };
}

function serviceView({ name, versions, traffic, rollout }, tick) {
  const list = Object.entries(versions).map(([version, { image, instances, configs }]) => ({
    version,
    image,
    configs,
    weight: traffic[version] ?? 0,
    replicas: instances.length,
    ready: instances.filter((instance) => isReady(instance, tick)).length,
    instances: instances.map((instance) => ({
      id: instance.id,
      ready: isReady(instance, tick),
      ...(instance.reason === null ? {} : { reason: instance.reason }),
    })),
  }));
  const { to, state, weight } = rollout ?? {};
  return {
    name,
    tick,
    healthy: list.every((each) => each.weight === 0 || (each.ready === each.replicas && each.ready > 0)),
    traffic,
    versions: list,
    ...(rollout === null ? {} : { rollout: { to, state, weight } }),
  };
}

function execIn({ instance, version, image }, command) {
  const [program, argument] = command;
  if (program === "env") {
    const lines = Object.entries({ ...instance.env, VERSION: version }).map(
      ([key, value]) => `${key}=${value}`,
    );
    return { exitCode: 0, stdout: `${lines.toSorted().join("\n")}\n` };
  }
  if (program === "printenv") {
    const value = { ...instance.env, VERSION: version }[argument];
    return value === undefined ? { exitCode: 1, stdout: "" } : { exitCode: 0, stdout: `${value}\n` };
  }
  if (program === "image") return { exitCode: 0, stdout: `${image}\n` };
  return { exitCode: 127, stdout: `${String(program)}: command not found\n` };
}
