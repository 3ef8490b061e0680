// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
)

// headerTrigger names the Trigger on whose behalf a call is made.
const headerTrigger = "X-Sless-Trigger"

// triggerTable knows the Triggers as far as calls depend on them. It is a table of its own because every call looks into
// it: reading lists from an informer costs more than the rest of the routing.
type triggerTable struct {
	mu         sync.RWMutex
	triggers   map[types.NamespacedName]*triggerEntry
	byFunction map[types.NamespacedName][]*triggerEntry
	byHost     map[string][]*triggerEntry
}

// triggerEntry is what the gateway needs of a Trigger. It is never changed.
type triggerEntry struct {
	name, function types.NamespacedName
	created        metav1.Time
	cron, enabled  bool
	// host is what the controller has granted. It decides between Triggers that want the same.
	host string
	// methods are those that an http Trigger lets in, or the one that a cron Trigger calls with. None means all.
	methods []string
}

func newTriggerTable() *triggerTable {
	return &triggerTable{
		triggers:   map[types.NamespacedName]*triggerEntry{},
		byFunction: map[types.NamespacedName][]*triggerEntry{},
		byHost:     map[string][]*triggerEntry{},
	}
}

func newTriggerEntry(t *v1alpha1.Trigger) *triggerEntry {
	e := &triggerEntry{
		name:     types.NamespacedName{Namespace: t.Namespace, Name: t.Name},
		function: types.NamespacedName{Namespace: t.Namespace, Name: t.Spec.FunctionRef.Name},
		created:  t.CreationTimestamp,
		cron:     t.Spec.Type == v1alpha1.TriggerTypeCron,
		enabled:  ptr.Deref(t.Spec.Enabled, true),
		host:     t.Status.Host,
	}
	switch {
	case e.cron && t.Spec.Cron != nil:
		method := string(t.Spec.Cron.Method)
		if method == "" {
			method = http.MethodPost
		}
		e.methods = []string{method}
	case t.Spec.HTTP != nil:
		for _, method := range t.Spec.HTTP.Methods {
			e.methods = append(e.methods, string(method))
		}
	}
	return e
}

// handler feeds the table from an informer of Triggers.
func (t *triggerTable) handler() toolscache.ResourceEventHandler {
	put := func(obj any) {
		if trigger, ok := obj.(*v1alpha1.Trigger); ok {
			t.put(trigger)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, obj any) { put(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if trigger, ok := obj.(*v1alpha1.Trigger); ok {
				t.remove(types.NamespacedName{Namespace: trigger.Namespace, Name: trigger.Name})
			}
		},
	}
}

func (t *triggerTable) put(trigger *v1alpha1.Trigger) {
	e := newTriggerEntry(trigger)
	if !trigger.DeletionTimestamp.IsZero() {
		t.remove(e.name)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(e.name)
	t.triggers[e.name] = e
	t.byFunction[e.function] = insert(t.byFunction[e.function], e)
	if e.host != "" {
		t.byHost[e.host] = insert(t.byHost[e.host], e)
	}
}

func (t *triggerTable) remove(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(name)
}

func (t *triggerTable) drop(name types.NamespacedName) {
	e := t.triggers[name]
	if e == nil {
		return
	}
	delete(t.triggers, name)
	take(t.byFunction, e.function, e)
	take(t.byHost, e.host, e)
}

// insert returns the entries with e among them, the oldest first. The old slice stays as it is, because calls may be reading
// it.
func insert(entries []*triggerEntry, e *triggerEntry) []*triggerEntry {
	entries = append(slices.Clone(entries), e)
	slices.SortFunc(entries, func(a, b *triggerEntry) int {
		if c := a.created.Compare(b.created.Time); c != 0 {
			return c
		}
		return strings.Compare(a.name.String(), b.name.String())
	})
	return entries
}

func take[K comparable](index map[K][]*triggerEntry, key K, e *triggerEntry) {
	rest := slices.DeleteFunc(slices.Clone(index[key]), func(other *triggerEntry) bool { return other == e })
	if len(rest) == 0 {
		delete(index, key)
		return
	}
	index[key] = rest
}

// Host returns the function that is served at the root of a host. host is that of a request: in any case, with or without a
// port and a dot at its end.
func (t *triggerTable) Host(host string) (types.NamespacedName, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.byHost) == 0 {
		return types.NamespacedName{}, false
	}
	entries := t.byHost[canonicalHost(host)]
	if len(entries) == 0 {
		return types.NamespacedName{}, false
	}
	return entries[0].function, true
}

// Admit says why the Triggers of a function do not let a call in, or returns nil. host is empty for a call of the function's
// path.
func (t *triggerTable) Admit(fn types.NamespacedName, host string, r *http.Request) *Refusal {
	t.mu.RLock()
	entries := t.byFunction[fn]
	t.mu.RUnlock()
	if len(entries) == 0 {
		return nil
	}
	host = canonicalHost(host)
	ways := ofWay(entries, host)
	on := enabledOf(ways)
	if host != "" && len(on) == 0 {
		return hostDisabled(host, ways)
	}
	if len(on) == 0 {
		// None of the ways by HTTP is on, but something else is: the path stays for that, and takes no more than it took.
		on = ways
	}
	if host == "" && calledBy(entries, r) {
		return nil
	}
	return checkMethod(fn, r.Method, on)
}

// ofWay returns the http Triggers of one way to the function: a host, or the path, which all of them share.
func ofWay(entries []*triggerEntry, host string) []*triggerEntry {
	var ways []*triggerEntry
	for _, e := range entries {
		if !e.cron && (host == "" || e.host == host) {
			ways = append(ways, e)
		}
	}
	return ways
}

func enabledOf(entries []*triggerEntry) []*triggerEntry {
	var on []*triggerEntry
	for _, e := range entries {
		if e.enabled {
			on = append(on, e)
		}
	}
	return on
}

// calledBy tells whether the call is one that an enabled cron Trigger makes. The header is no secret, so that others can
// make the same call; they cannot make another.
func calledBy(entries []*triggerEntry, r *http.Request) bool {
	name := r.Header.Get(headerTrigger)
	return name != "" && slices.ContainsFunc(entries, func(e *triggerEntry) bool {
		return e.cron && e.enabled && e.name.Name == name && slices.Contains(e.methods, r.Method)
	})
}

// checkMethod lets in what one of the ways lets in.
func checkMethod(fn types.NamespacedName, method string, ways []*triggerEntry) *Refusal {
	var allowed []string
	for _, e := range ways {
		if len(e.methods) == 0 || slices.Contains(e.methods, method) {
			return nil
		}
		allowed = append(allowed, e.methods...)
	}
	if len(ways) == 0 {
		return nil
	}
	slices.Sort(allowed)
	allow := strings.Join(slices.Compact(allowed), ", ")
	return &Refusal{
		Status: http.StatusMethodNotAllowed, Reason: reasonMethodNotAllowed, Allow: allow,
		Message: fmt.Sprintf("function %s takes %s only", fn, allow),
	}
}

func hostDisabled(host string, ways []*triggerEntry) *Refusal {
	message := "host " + host + " is not served any more"
	if len(ways) > 0 {
		message = fmt.Sprintf("host %s is switched off: Trigger %s is disabled", host, ways[0].name.Name)
	}
	return &Refusal{Status: http.StatusServiceUnavailable, Reason: v1alpha1.ReasonDisabled, Message: message}
}

// canonicalHost returns a host name in the form in which hosts are compared.
func canonicalHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// trimTrigger drops what routing does not need before a Trigger enters the cache.
func trimTrigger(obj any) (any, error) {
	trigger, ok := obj.(*v1alpha1.Trigger)
	if !ok {
		return obj, nil // a tombstone of the informer
	}
	trigger.ManagedFields = nil
	trigger.Annotations = nil
	if trigger.Spec.Cron != nil {
		trigger.Spec.Cron = &v1alpha1.CronTrigger{Method: trigger.Spec.Cron.Method}
	}
	trigger.Status = v1alpha1.TriggerStatus{Host: trigger.Status.Host}
	return trigger, nil
}
