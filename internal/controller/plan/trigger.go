// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
)

// maxNamed bounds the names in a message.
const maxNamed = 5

// Enabled tells whether a Trigger is switched on. The default is on.
func Enabled(t *v1alpha1.Trigger) bool {
	return ptr.Deref(t.Spec.Enabled, true)
}

// Disabled decides whether a Function is switched off by its Triggers, and says so in a sentence: it has some, and none of
// them is enabled. A Trigger that is being deleted does not count.
func Disabled(triggers []v1alpha1.Trigger) (why string, disabled bool) {
	var names []string
	for i := range triggers {
		switch t := &triggers[i]; {
		case !t.DeletionTimestamp.IsZero():
		case Enabled(t):
			return "", false
		default:
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return "no Trigger of this Function is enabled: " + strings.Join(names, ", "), true
}

// HostHolder returns the Trigger that serves a host, of all that claim it: the oldest. Of two of the same age the first by
// namespace and name has it. Triggers that are being deleted claim nothing. It returns nil when nobody claims the host.
func HostHolder(claims []v1alpha1.Trigger) *v1alpha1.Trigger {
	var holder *v1alpha1.Trigger
	for i := range claims {
		t := &claims[i]
		if t.DeletionTimestamp.IsZero() && (holder == nil || older(t, holder)) {
			holder = t
		}
	}
	return holder
}

func older(a, b *v1alpha1.Trigger) bool {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	) < 0
}
