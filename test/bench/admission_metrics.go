// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	webhookLatency  = "controller_runtime_webhook_latency_seconds"
	metricsReader   = "sless-metrics-reader"
	readerName      = "sless-bench-metrics"
	maxMetricsBytes = 16 << 20
)

// webhookWatch reads how long the webhooks took by their own clocks, out of the manager's metrics.
type webhookWatch struct {
	b      *bench
	token  string
	pods   []string
	before map[string]*latency
}

// latency is a histogram of one webhook, of all managers together.
type latency struct {
	count   uint64
	sum     float64
	buckets map[float64]uint64
}

// watchWebhooks begins to watch, or returns nil where the managers' pods cannot be reached, which is so outside of the
// cluster's own machine.
func (b *bench) watchWebhooks(ctx context.Context) *webhookWatch {
	w := &webhookWatch{b: b}
	if err := w.open(ctx); err != nil {
		b.say("Leaving the webhooks' own clocks out: %v", err)
		w.close(ctx)
		return nil
	}
	return w
}

func (w *webhookWatch) open(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := w.b.client.List(ctx, pods, client.InNamespace("sless-system"),
		client.MatchingLabels{"sless.io/webhooks": "enabled"}); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := onlyThisMachine(ctx, pods.Items[i].Status.HostIP); err != nil {
			return err
		}
		w.pods = append(w.pods, pods.Items[i].Status.PodIP)
	}
	if len(w.pods) == 0 {
		return errors.New("no manager serves webhooks")
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: readerName, Namespace: benchNamespace}}
	if err := w.b.client.Create(ctx, account); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("making a reader of metrics: %w", err)
	}
	if err := w.b.client.Create(ctx, readerBinding()); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("making a reader of metrics: %w", err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := w.b.client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("making a reader of metrics: %w", err)
	}
	w.token = request.Status.Token
	var err error
	w.before, err = w.read(ctx)
	return err
}

func readerBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: readerName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metricsReader},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: readerName, Namespace: benchNamespace}},
	}
}

// close takes the reader's right away again.
func (w *webhookWatch) close(ctx context.Context) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: readerName, Namespace: benchNamespace}}
	for _, obj := range []client.Object{readerBinding(), account} {
		if err := client.IgnoreNotFound(w.b.client.Delete(ctx, obj)); err != nil {
			w.b.say("Failed to remove %s: %v", obj.GetName(), err)
		}
	}
}

// table tells what the webhooks did since the beginning.
func (w *webhookWatch) table(ctx context.Context) (*table, error) {
	after, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	t := &table{block: "admission-webhooks", title: "The webhooks by their own clocks, from request to answer",
		columns: []string{"webhook", "calls", "mean", "within 1 ms", "within 10 ms"}}
	paths := []string{}
	for path := range after {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if row, ok := after[path].row(path, w.before[path]); ok {
			t.rows = append(t.rows, row)
		}
	}
	return t, nil
}

// row tells what came in since an earlier look, if anything.
func (l *latency) row(name string, before *latency) ([]string, bool) {
	if before == nil {
		before = &latency{}
	}
	count := l.count - before.count
	if count == 0 {
		return nil, false
	}
	within := func(bound float64) string {
		return strconv.FormatFloat(100*float64(l.within(bound)-before.within(bound))/float64(count), 'f', 2, 64) + " %"
	}
	mean := time.Duration((l.sum - before.sum) / float64(count) * float64(time.Second))
	return []string{name, strconv.FormatUint(count, 10), showDuration(mean), within(1e-3), within(1e-2)}, true
}

// within returns how many took no longer than a bound of the histogram. Bounds are compared roughly, since they are written
// as decimal fractions.
func (l *latency) within(bound float64) uint64 {
	for upper, count := range l.buckets {
		if upper > bound*0.99 && upper < bound*1.01 {
			return count
		}
	}
	return 0
}

func (w *webhookWatch) read(ctx context.Context) (map[string]*latency, error) {
	all := map[string]*latency{}
	for _, ip := range w.pods {
		families, err := w.scrape(ctx, ip)
		if err != nil {
			return nil, fmt.Errorf("reading the manager's metrics: %w", err)
		}
		addLatencies(all, families[webhookLatency])
	}
	return all, nil
}

func addLatencies(all map[string]*latency, family *dto.MetricFamily) {
	for _, m := range family.GetMetric() {
		path := ""
		for _, pair := range m.GetLabel() {
			if pair.GetName() == "webhook" {
				path = pair.GetValue()
			}
		}
		if all[path] == nil {
			all[path] = &latency{buckets: map[float64]uint64{}}
		}
		h := m.GetHistogram()
		all[path].count += h.GetSampleCount()
		all[path].sum += h.GetSampleSum()
		for _, bucket := range h.GetBucket() {
			all[path].buckets[bucket.GetUpperBound()] += bucket.GetCumulativeCount()
		}
	}
}

func (w *webhookWatch) scrape(ctx context.Context, ip string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(ip, "8443")+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	// The metrics server's certificate signs itself. The token reads metrics alone, and the pod is on this machine.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // See above.
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMetricsBytes))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(string(body)))
}
