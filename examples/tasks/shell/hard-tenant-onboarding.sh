#!/usr/bin/env bash
# Onboarding of three tenants, as a task of shell scripts: hard-tenant-onboarding.sh setup|verify|cleanup
# Needs ROOT (http://127.0.0.1:PORT) and STATE_DIR (a folder that the three calls share).
set -euo pipefail

: "${ROOT:?set ROOT to the address of the platform}"
: "${STATE_DIR:?set STATE_DIR to a folder}"
API="$ROOT/v1"
TENANTS=(red:rosa green:gil blue:bo)
STAGES=(dev:4:debug prod:8:warn)
FAILED=0

for tool in curl jq; do
  command -v "$tool" >/dev/null || { echo "ERROR: $tool is not installed" >&2; exit 2; }
done
mkdir -p "$STATE_DIR"
TMP=$(mktemp -d)

fail() {
  echo "FAIL: $*" >&2
  FAILED=1
}

# request METHOD PATH [BODY]: prints the body, fails on any status but 2xx
request() {
  local method=$1 url="$API/$2" body=${3:-} status
  local options=(-sS -m 30 -o "$TMP/body" -w '%{http_code}' -X "$method")
  if [[ -n "$body" ]]; then options+=(-H 'content-type: application/json' -d "$body"); fi
  status=$(curl "${options[@]}" "$url") || { echo "ERROR: $method $url" >&2; return 1; }
  if [[ ! "$status" =~ ^2 ]]; then
    echo "ERROR: $method $url answered $status: $(cat "$TMP/body")" >&2
    return 1
  fi
  cat "$TMP/body"
}

status_of() {
  curl -sS -m 30 -o "$TMP/body" -w '%{http_code}' -X "$1" -H 'content-type: application/json' -d "${3:-}" "$API/$2" || echo 000
}

setup() {
  request POST namespaces \
    '{"name": "template", "labels": {"managed-by": "platform"}, "quota": {"services": 2, "instances": 4}}' >/dev/null
  request PUT namespaces/template/members/ops '{"role": "admin"}' >/dev/null
  request PUT namespaces/template/members/auditor '{"role": "viewer"}' >/dev/null
  request PUT namespaces/template/configs/settings \
    '{"data": {"DATABASE_URL": "postgres://db/template", "LOG": "info"}}' >/dev/null
  local entry
  for entry in api=api:2.0 worker=worker:1.0; do
    request PUT "namespaces/template/services/${entry%%=*}/versions/v1" \
      "$(jq -n --arg image "${entry#*=}" '{image: $image, replicas: 1, configs: ["settings"]}')" >/dev/null
  done
  request GET namespaces/template >"$STATE_DIR/template.json"
  request GET namespaces/template/members | jq .items >"$STATE_DIR/members.json"
  local service tries
  for service in api worker; do
    tries=0
    until request GET "namespaces/template/services/$service" | jq -e '.healthy' >/dev/null; do
      tries=$((tries + 1))
      if ((tries > 250)); then
        echo "ERROR: $service of template did not become healthy" >&2
        exit 1
      fi
      sleep 0.02
    done
  done
}

# same_but FILTER EXPECTED_FILE ACTUAL: compares two documents without what the filter deletes
same_but() {
  diff <(jq -S "$1" "$2") <(jq -S "$1" <<<"$3") >"$TMP/diff" 2>&1
}

verify_namespace() {
  local tenant=$1 lead=$2 stage=$3 instances=$4 log=$5
  local name="$tenant-$stage" doc
  if ! doc=$(request GET "namespaces/$name" 2>"$TMP/error"); then
    fail "$name: $(cat "$TMP/error")"
    return
  fi
  same_but 'del(.name, .labels.tenant, .labels.stage, .quota.instances, .members)' "$STATE_DIR/template.json" "$doc" ||
    fail "$name is not like the template: $(cat "$TMP/diff")"
  jq -e --arg tenant "$tenant" --arg stage "$stage" \
    '.labels.tenant == $tenant and .labels.stage == $stage' <<<"$doc" >/dev/null ||
    fail "$name has the labels $(jq -c .labels <<<"$doc")"
  [[ "$(jq .quota.instances <<<"$doc")" == "$instances" ]] ||
    fail "$name may have $(jq .quota.instances <<<"$doc") instances, expected $instances"

  local members
  members=$(request GET "namespaces/$name/members")
  if ! diff <(jq -S . "$STATE_DIR/members.json") \
    <(jq -S --arg lead "$lead" '[.items[] | select(.user != $lead)]' <<<"$members") >"$TMP/diff"; then
    fail "$name has other members than the template: $(cat "$TMP/diff")"
  fi
  local role
  role=$(jq -r --arg lead "$lead" '.items[] | select(.user == $lead) | .role' <<<"$members")
  [[ "$role" == editor ]] || fail "$name: the lead $lead has the role '$role', expected editor"

  local settings expected
  if settings=$(request GET "namespaces/$name/configs/settings" 2>/dev/null); then
    expected=$(jq -cnS --arg url "postgres://db/$name" --arg log "$log" '{DATABASE_URL: $url, LOG: $log}')
    [[ "$(jq -cS .data <<<"$settings")" == "$expected" ]] || fail "$name has the settings $(jq -c .data <<<"$settings")"
  else
    fail "$name has no config settings"
  fi
  verify_services "$name"
}

verify_services() {
  local name=$1 service doc output
  for service in api worker; do
    if ! doc=$(request GET "namespaces/$name/services/$service" 2>/dev/null); then
      fail "$name has no service $service"
      continue
    fi
    jq -e '.healthy' <<<"$doc" >/dev/null || fail "$name: $service is not healthy"
    [[ "$(jq -c '[.versions[].replicas]' <<<"$doc")" == "[1]" ]] || fail "$name: $service does not have one instance"
    jq -e --arg pattern "^$service:[12]\\.0\$" '[.versions[] | select(.image | test($pattern))] | length == 1' <<<"$doc" >/dev/null ||
      fail "$name: $service runs $(jq -c '[.versions[].image]' <<<"$doc")"
    if output=$(request POST "namespaces/$name/services/$service/instances/$service-v1-1/exec" \
      '{"command": ["printenv", "DATABASE_URL"]}' 2>&1); then
      [[ "$output" == *"postgres://db/$name"* ]] || fail "$name: $service has the database $output"
    else
      fail "$name: cannot look into $service: $output"
    fi
  done
}

verify() {
  trap 'status_of PATCH namespaces/red-dev/services/api/versions/v1 "{\"replicas\": 1}" >/dev/null; rm -rf "$TMP"' EXIT
  local tenant stage name instances log
  for tenant in "${TENANTS[@]}"; do
    for stage in "${STAGES[@]}"; do
      IFS=: read -r name instances log <<<"$stage"
      verify_namespace "${tenant%%:*}" "${tenant##*:}" "$name" "$instances" "$log"
    done
  done

  local status
  status=$(status_of PATCH namespaces/red-dev/services/api/versions/v1 '{"replicas": 3}')
  [[ "$status" == 200 ]] || fail "red-dev: four instances do not fit (status $status)"
  status=$(status_of PATCH namespaces/red-dev/services/api/versions/v1 '{"replicas": 4}')
  if [[ "$status" != 409 ]] || ! jq -e '.error.code == "conflict"' "$TMP/body" >/dev/null; then
    fail "red-dev: a fifth instance was not refused (status $status)"
  fi

  local all
  all=$(request GET namespaces)
  [[ "$(jq '.items | length' <<<"$all")" == 7 ]] || fail "there are $(jq '.items | length' <<<"$all") namespaces, expected 7"
  [[ "$(jq '[.items[].services[]] | length' <<<"$all")" == 14 ]] || fail "there are not 14 services"
  same_but . "$STATE_DIR/template.json" "$(request GET namespaces/template)" ||
    fail "template was changed: $(cat "$TMP/diff")"

  if ((FAILED)); then exit 1; fi
  echo "PASS: three tenants are set up"
}

cleanup() {
  local tenant stage status
  for tenant in "${TENANTS[@]}"; do
    for stage in "${STAGES[@]}"; do
      status=$(status_of DELETE "namespaces/${tenant%%:*}-${stage%%:*}")
      if [[ "$status" != 200 && "$status" != 404 ]]; then
        echo "WARNING: ${tenant%%:*}-${stage%%:*} could not be deleted (status $status)" >&2
      fi
    done
  done
  status=$(status_of DELETE namespaces/template)
  [[ "$status" == 200 || "$status" == 404 ]] || echo "WARNING: template could not be deleted (status $status)" >&2
  rm -f "$STATE_DIR/template.json" "$STATE_DIR/members.json"
}

trap 'rm -rf "$TMP"' EXIT
case "${1:-}" in
  setup) setup ;;
  verify) verify ;;
  cleanup) cleanup ;;
  *)
    echo "usage: $0 setup|verify|cleanup" >&2
    exit 2
    ;;
esac
