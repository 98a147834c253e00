export const scriptForm = `# A task of the script form.
kind: Task
metadata:
  name: "create-pod" # the name
  difficulty: easy
  category: pods
  labels:
    suite: k8s
    level: 3

steps:
  # first make the namespace
  setup:
    inline: |-
      #!/usr/bin/env bash
      kubectl create ns "$NS_NAME" # a comment
      NAME=x; echo $NAME \${KUBECONFIG:-none}
      kubectl get pods -o go-template='{{.items}}' | awk '{print $1}'
  verify:
    file: verify.sh # beside it
  prompt:
    # what to say
    inline: 'Create a pod named {steps.x} and {"a": 1} in \${HOME}.'
  cleanup:
    inline: echo "{env.NS_NAME}"
`;

export const migratedScriptForm = `# A task of the script form.
kind: Task
apiVersion: mcp-eval/v1
metadata:
  # migrated: category: "pods" is left out; nothing reads it
  name: "create-pod" # the name
  difficulty: easy
  labels:
    suite: k8s
    level: "3"

# migrated: processes get spec.env, PATH, HOME, LANG and TMPDIR, no longer the whole environment of the shell; an Eval's inheritEnv passes more, such as KUBECONFIG
spec:
  # migrated: what the scripts use of your shell; take out what they set themselves
  env:
    NS_NAME: "{env.NS_NAME}"
  limits:
    cleanupTimeout: 5m
  # first make the namespace
  setup:
    - script:
        inline: |-
          #!/usr/bin/env bash
          kubectl create ns "$NS_NAME" # a comment
          NAME=x; echo $NAME \${KUBECONFIG:-none}
          kubectl get pods -o go-template='{{{{.items}}}}' | awk '{print $1}'
  verify:
    - script:
        file: verify.sh # beside it
  # what to say
  prompt: 'Create a pod named {{steps.x}} and {"a": 1} in \${HOME}.'
  cleanup:
    - script:
        inline: echo "{{env.NS_NAME}}"
`;

export const stepForm = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata:
  name: steps
  description: A step form
  labels: &labels { team: red }
  runs: 4
spec:
  requires:
    # the cluster
    - extension: kubernetes
      as: k8s
    - mcpServer: calc
      as: c
    - command: jq
  limits: { timeout: 1h30m }
  setup:
    # remove what was left over
    - k8s.delete: { kind: Pod, name: web }
    - k8s.create:
        kind: Pod
        id: 7
        metadata: { name: "web-{env.X}", labels: *labels }
    - k8s.currentContext:
    - http:
        url: "http://\${HOST}:8080/{random.id}"
        body: { json: { a: "{env.X}", b: "{c}" } }
    - id: sum
      c.add:
        args: { a: 2 }
        expect: { isError: true }
  prompt:
    inline: |
      Look at {steps.kubernetes.create.name}.
      And {env.Y} too.
  verify:
    - script:
        inline: test "$OUT" = {x}
        env: { OUT: "{agent.output}", PORT: 8080 }
        continueOnError: true
        timeout: 90s
    - http:
        url: http://localhost/a
        method: POST
        body: { raw: "a={env.X}" }
        expect:
          status: 200
          body:
            match: '"ok": ?true'
            fields:
              - path: items[0].name # the first
                equals: web
                type: string
              - { path: ready, type: bool }
              - { path: gone, exists: false }
    - llmJudge:
        contains: web
        reason: because
    - c.add: { args: { a: 1 } }
    - llmJudge: { exact: "{steps.calc.add.content}" }
  cleanup:
    - script: { inline: echo one }
    # the second
    - script: { inline: echo two }
`;

export const migratedStepForm = `kind: Task
apiVersion: mcp-eval/v1
metadata:
  # migrated: runs: 4 is left out; see --trials
  name: steps
  description: A step form
  labels: { team: red }
# migrated: processes get spec.env, PATH, HOME, LANG and TMPDIR, no longer the whole environment of the shell; an Eval's inheritEnv passes more
spec:
  imports:
    # the cluster
    # migrated: say where kubernetes comes from: github.com/ORG/REPO@VERSION, as in the Eval's config.extensions
    - package: kubernetes
      as: k8s
  requires:
    - server: calc
    - command: jq
  limits: { timeout: 90m, cleanupTimeout: 5m }
  setup:
    # remove what was left over
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - k8s.delete: { kind: Pod, name: web, continueOnError: true }
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - extension:
        id: setup_1
        package: k8s
        action: create
        args:
          kind: Pod
          id: 7
          metadata: { name: "web-{{env.X}}", labels: { team: red } }
        continueOnError: true
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - k8s.currentContext:
        continueOnError: true
    - http:
        url: "http://{env.HOST}:8080/{random.id}"
        body: { json: { a: "{{env.X}}", b: "{c}" } }
        expect:
          status: [ 1xx, 2xx, 3xx, 4xx, 5xx ]
        timeout: 5m
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - calc.add:
        id: sum
        args: { a: 2 }
        expect: { isError: true }
        timeout: 5m
        continueOnError: true
  prompt: |
    Look at {steps.setup_1.outputs.name}.
    And {{env.Y}} too.
  verify:
    # migrated: continueOnError: true is left out: a failure counted all the same, only the steps after it still ran, as they always do now
    - script:
        inline: test "$OUT" = {x}
        env: { OUT: "{agent.output}", PORT: "8080" }
        timeout: 90s
    # migrated: equals compares JSON values, so that 5 and "5" differ; the older form took them as equal
    - http:
        url: http://localhost/a
        method: POST
        body: "a={{env.X}}"
        expect:
          status: 200
          body:
            matches: '"ok": ?true'
            json:
              - path: items[0].name # the first
                equals: web
                type: string
              - { path: ready, type: boolean }
              - { path: gone, exists: false }
        timeout: 5m
    - llm:
        contains: web
        timeout: 5m
    - calc.add: { id: verify_3, args: { a: 1 }, timeout: 5m, outputs: { content: "{result | json $.content}" } }
    - llm: { exact: "{steps.verify_3.outputs.content}", timeout: 5m }
  # migrated: the last step is run first
  cleanup:
    # the second
    - script: { inline: echo two }
    - script: { inline: echo one }
`;

export const judgeForm = `kind: Task
apiVersion: mcpchecker/v1alpha1
metadata: { name: judge, difficulty: hardest }
steps:
  prompt: { file: prompt.txt }
  verify: { contains: "the answer {env.X} to {agent.prompt}" }
`;

export const files: Readonly<Record<string, string>> = {
  "verify.sh": "#!/bin/sh\ntest -d .\n",
  "prompt.txt": "Say hi.\n",
};
