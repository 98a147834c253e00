#!/usr/bin/env bash
# Blue-green switch, as a task of shell scripts: hard-blue-green-switch.sh setup|verify|cleanup
# Needs ROOT (http://127.0.0.1:PORT), NAMESPACE and STATE_DIR (a folder that the three calls share).
set -euo pipefail

: "${ROOT:?set ROOT to the address of the platform}"
: "${NAMESPACE:?set NAMESPACE}"
: "${STATE_DIR:?set STATE_DIR to a folder}"
STORE="$ROOT/v1/namespaces/$NAMESPACE"
FAILED=0

command -v curl >/dev/null || { echo "ERROR: curl is not installed" >&2; exit 2; }
command -v jq >/dev/null || { echo "ERROR: jq is not installed" >&2; exit 2; }
mkdir -p "$STATE_DIR"
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT

fail() {
  echo "FAIL: $*" >&2
  FAILED=1
}

# request METHOD URL [BODY]: prints the body, fails on any status but 2xx
request() {
  local method=$1 url=$2 body=${3:-}
  local status
  if [[ -n "$body" ]]; then
    status=$(curl -sS -m 30 -o "$TMP/body" -w '%{http_code}' -X "$method" \
      -H 'content-type: application/json' -d "$body" "$url") || { echo "ERROR: $method $url" >&2; return 1; }
  else
    status=$(curl -sS -m 30 -o "$TMP/body" -w '%{http_code}' -X "$method" "$url") ||
      { echo "ERROR: $method $url" >&2; return 1; }
  fi
  if [[ ! "$status" =~ ^2 ]]; then
    echo "ERROR: $method $url answered $status: $(cat "$TMP/body")" >&2
    return 1
  fi
  cat "$TMP/body"
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# wait_for SECONDS URL FILTER: until the filter is true
wait_for() {
  local deadline=$(($(now_ms) + $1 * 1000)) url=$2 filter=$3
  while (($(now_ms) < deadline)); do
    if request GET "$url" 2>/dev/null | jq -e "$filter" >/dev/null 2>&1; then return 0; fi
    sleep 0.05
  done
  return 1
}

setup() {
  request POST "$ROOT/v1/namespaces" \
    "$(jq -n --arg name "$NAMESPACE" '{name: $name, quota: {services: 2, instances: 6}}')" >/dev/null
  request PUT "$STORE/configs/features" '{"data": {"CHECKOUT": "express", "REGION": "eu"}}' >/dev/null
  local service replicas
  for entry in shop:2 search:1; do
    service=${entry%%:*}
    replicas=${entry##*:}
    request PUT "$STORE/services/$service/versions/blue" \
      "{\"image\": \"shop:1.0\", \"replicas\": $replicas, \"configs\": [\"features\"]}" >/dev/null
    if ! wait_for 5 "$STORE/services/$service" '.healthy == true'; then
      echo "ERROR: $service did not become healthy within 5 s" >&2
      exit 1
    fi
  done
  request GET "$STORE/services/search" >"$STATE_DIR/search.json"
}

verify() {
  # 1. green is live
  if ! wait_for 2 "$STORE/services/shop" \
    '.traffic == {"green": 100} and ([.versions[] | select(.version == "green") | .instances[] | select(.ready)] | length) == 2'; then
    fail "green does not have all the traffic with two ready instances: $(request GET "$STORE/services/shop" | jq -c '{traffic, versions: [.versions[] | {version, ready}]}')"
  fi
  local shop image configs
  shop=$(request GET "$STORE/services/shop")
  image=$(jq -r '.versions[] | select(.version == "green") | .image' <<<"$shop")
  [[ "$image" == "shop:1.1" ]] || fail "green runs image '$image', not shop:1.1"
  configs=$(jq -c '[.versions[] | select(.version == "green") | .configs[]]' <<<"$shop")
  [[ "$configs" == '["features"]' ]] || fail "green has the configs $configs"

  # 2. blue is kept, with one or two instances
  local blue
  blue=$(jq -r '.versions[] | select(.version == "blue") | .ready' <<<"$shop")
  if [[ "$blue" != 1 && "$blue" != 2 ]]; then
    fail "blue has '${blue:-no}' ready instances, expected 1 or 2"
  fi

  # 3. customers get green, for half a second on end; within at most 1.5 s
  local started deadline since=0 version status
  started=$(now_ms)
  deadline=$((started + 1500))
  while :; do
    status=$(curl -sS -m 5 -o /dev/null -D "$TMP/headers" -w '%{http_code}' "$ROOT/route/$NAMESPACE/shop" || echo 000)
    version=$(tr -d '\r' <"$TMP/headers" | awk -F': ' 'tolower($1) == "x-version" {print $2}')
    if [[ "$status" == 200 && "$version" == green ]]; then
      ((since == 0)) && since=$(now_ms)
      (($(now_ms) - since >= 500)) && break
    else
      since=0
    fi
    if (($(now_ms) > deadline)); then
      fail "customers get '$version' (status $status)"
      break
    fi
    sleep 0.025
  done

  # 4. no errors
  local metrics errors
  metrics=$(request GET "$STORE/services/shop/metrics")
  errors=$(jq '.total.errors' <<<"$metrics")
  [[ "$errors" == 0 ]] || fail "$errors requests failed"
  jq -e '.byVersion.green.errorPercent == 0' <<<"$metrics" >/dev/null || fail "green has errors"

  # 5. it was one switch
  local events switches others
  events=$(request GET "$STORE/events")
  switches=$(jq '[.items[] | select(.type == "TrafficSet")] | length' <<<"$events")
  [[ "$switches" == 1 ]] || fail "the traffic was changed $switches times, expected once"
  others=$(jq '[.items[] | select((.type | startswith("Rollout")) or .type == "ServiceDeleted")] | length' <<<"$events")
  [[ "$others" == 0 ]] || fail "there was a rollout, or a service was deleted"

  # 6. variables inside every green instance
  local ids id output count=0
  ids=$(jq -r '.versions[] | select(.version == "green") | .instances[].id' <<<"$shop")
  for id in $ids; do
    count=$((count + 1))
    if ! output=$(request POST "$STORE/services/shop/instances/$id/exec" '{"command": ["env"]}'); then
      fail "cannot look into $id"
      continue
    fi
    [[ "$(jq -r '.stdout' <<<"$output")" == $'CHECKOUT=express\nREGION=eu\nVERSION=green' ]] ||
      fail "$id has other variables: $(jq -c '.stdout' <<<"$output")"
  done
  ((count > 0)) || fail "there are no green instances"

  # 7. the other service is untouched
  if ! diff <(jq -S 'del(.tick)' "$STATE_DIR/search.json") \
    <(request GET "$STORE/services/search" | jq -S 'del(.tick)') >"$TMP/diff"; then
    fail "the service search was changed: $(cat "$TMP/diff")"
  fi

  if ((FAILED)); then exit 1; fi
  echo "PASS: green has all the traffic"
}

cleanup() {
  local status
  status=$(curl -sS -m 30 -o /dev/null -w '%{http_code}' -X DELETE "$STORE" || echo 000)
  if [[ "$status" != 200 && "$status" != 404 ]]; then
    echo "WARNING: $NAMESPACE could not be deleted (status $status)" >&2
  fi
  rm -f "$STATE_DIR/search.json"
}

case "${1:-}" in
  setup) setup ;;
  verify) verify ;;
  cleanup) cleanup ;;
  *)
    echo "usage: $0 setup|verify|cleanup" >&2
    exit 2
    ;;
esac
