import { expect, it } from "vitest";
import { containerArguments, containerEnvironment, type ContainerPlan } from "./container.ts";

const plan: ContainerPlan = {
  runtime: { engine: "docker", rootless: false, runArguments: ["--ulimit", "nofile=100:100"], user: "7:8" },
  spec: { kind: "docker", network: "none", read: [], write: [], memoryBytes: 2 ** 20, processes: 2 },
  image: "image",
  name: "name",
  command: "node",
  process: { args: ["main.js", "x y"], cwd: "/ws" },
  mounts: [
    { kind: "read", at: "/task", source: "/task" },
    { kind: "write", at: "/ws", source: "/odd,name" },
  ],
  environmentFile: "/env",
  passedVariables: ["LINES"],
};

it("confines everything that a container can be confined in", () => {
  expect(containerArguments(plan).join(" ")).toBe(
    "run --ulimit nofile=100:100 --rm --interactive --name name --init --pull never --network none --read-only " +
      "--cap-drop ALL --security-opt no-new-privileges --memory 1048576b --memory-swap 1048576b --shm-size 524288b " +
      "--pids-limit 32 --ulimit core=0:0 --tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777,size=524288 --user 7:8 " +
      '--mount type=bind,source=/task,target=/task,readonly --mount type=bind,"source=/odd,name",target=/ws ' +
      "--env-file /env --env LINES --workdir /ws --entrypoint node image main.js x y",
  );
});

it.each([
  ["docker", "--user 0:0"],
  ["podman", "--userns=keep-id --user 7:8"],
] as const)("has our user with a rootless %s", (engine, expected) => {
  const args = containerArguments({ ...plan, runtime: { ...plan.runtime, engine, rootless: true } });
  expect(args.join(" ")).toContain(` ${expected} `);
});

it("leaves folders of this machine out of the environment, and passes what a file cannot have", () => {
  const env = { PATH: "/bin", TMPDIR: "/x", HOME: "/home/me", A: " b ", LINES: "1\n2" };
  expect(containerEnvironment(env, plan.mounts)).toEqual({
    file: "HOME=/tmp\nA= b \n",
    passed: { LINES: "1\n2" },
  });
  expect(containerEnvironment({ HOME: "/ws/home", TMPDIR: "/ws" }, plan.mounts).file).toBe(
    "HOME=/ws/home\nTMPDIR=/ws\n",
  );
});
