#!/usr/bin/env bash
# Checks that everything generated is current, formatted and committed. It writes what is out of date, so that a second
# run after a commit passes.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "verify: $*" >&2
	exit 1
}

snapshot() {
	git ls-files -co --exclude-standard -z | sort -z | xargs -0 sha256sum 2>/dev/null
}

untracked=$(git ls-files --others --exclude-standard)
[ -z "$untracked" ] || fail "these files are not committed; add them or ignore them:"$'\n'"$untracked"

before=$(snapshot)
make manifests generate api-docs build-installer
go mod tidy
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || fail "run make fmt; these files are not formatted:"$'\n'"$unformatted"
after=$(snapshot)
if [ "$before" != "$after" ]; then
	diff <(echo "$before") <(echo "$after") | sed -n 's/^[<>] [0-9a-f]*  //p' | sort -u >&2
	fail "the files above were out of date and have been written anew; commit them"
fi
make vet
for overlay in config/default config/certmanager/objects config/local config/demo config/network-policy config/prometheus config/samples; do
	bin/kustomize build "$overlay" > /dev/null || fail "config folder $overlay does not build"
done
for metric in $(grep -ohE 'sless_(gateway|function|cleanup|code_review)_[a-z_]+' config/prometheus/rules.yaml | sort -u); do
	git grep -qF "\"$metric\"" -- '*.go' || fail "config/prometheus/rules.yaml watches $metric, which nothing counts"
done
echo "verify: everything is current"
