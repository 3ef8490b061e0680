// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestRouteFault(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason, message string, generation int64) any {
		return map[string]any{
			"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
		}
	}
	parent := func(name string, conditions ...any) any {
		return map[string]any{
			"parentRef": map[string]any{"name": name, "namespace": "infra"}, "controllerName": "c", "conditions": conditions,
		}
	}
	accepted, resolved := condition("Accepted", "True", "Accepted", "", 2), condition("ResolvedRefs", "True", "ResolvedRefs", "", 2)
	notAllowed := condition("Accepted", "False", "NotAllowedByListeners", "No listener allows it.", 2)
	noBackend := condition("ResolvedRefs", "False", "BackendNotFound", "", 2)
	const waits = "Pending false Gateway infra/public, sless-system/inner has not accepted the host yet"
	tests := map[string]struct {
		parents []any
		want    string
	}{
		"nobody has said anything": {want: waits},
		"accepted":                 {parents: []any{parent("public", accepted, resolved)}},
		"accepted, not resolved yet": {
			parents: []any{parent("public", accepted)}, want: waits,
		},
		"accepted before its last change": {
			parents: []any{parent("public", condition("Accepted", "True", "Accepted", "", 1), resolved)}, want: waits,
		},
		"refused before its last change": {
			parents: []any{parent("public", condition("Accepted", "False", "NoMatchingParent", "", 1))}, want: waits,
		},
		"refused": {
			parents: []any{parent("public", notAllowed, resolved)},
			want: "HostNotRouted true Gateway infra/public does not serve the host: NotAllowedByListeners: No listener allows it; " +
				"the operator of the cluster has to mend that",
		},
		"without the backend": {
			parents: []any{parent("public", accepted, noBackend)},
			want: "HostNotRouted true Gateway infra/public does not serve the host: BackendNotFound: it gives no reason; " +
				"the operator of the cluster has to mend that",
		},
		"one of two is enough":   {parents: []any{parent("public", notAllowed), parent("inner", accepted, resolved)}},
		"something else is said": {parents: []any{"?", parent("public", condition("Programmed", "False", "x", "", 2), "?")}, want: waits},
		"a condition without a generation": {
			parents: []any{parent("public", map[string]any{"type": "Accepted", "status": "True"}, resolved)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "host-a", "namespace": "sless-system", "generation": int64(2)},
				"spec": map[string]any{"parentRefs": []any{
					map[string]any{"name": "public", "namespace": "infra"}, map[string]any{"name": "inner"}, "?",
				}},
			}}
			if tc.parents != nil {
				route.Object["status"] = map[string]any{"parents": tc.parents}
			}
			got := ""
			if fault := RouteFault(route); fault != nil {
				got = fault.Reason + map[bool]string{true: " true ", false: " false "}[fault.User] + fault.Message
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fault (-want +got):\n%s", diff)
			}
		})
	}
}
