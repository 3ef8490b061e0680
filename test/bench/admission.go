// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// parallelApplies is how many applies are sent at the same moment.
const parallelApplies = 50

// applyKind is a way to apply, on a dry run, so that nothing but admission happens.
type applyKind struct {
	name string
	// make returns what the n-th apply sends.
	make func(n int) *v1alpha1.Function
}

// measureAdmission applies 50 Functions at the same moment, again and again: such that the webhooks are not asked, and such
// that they are. The difference is what they cost.
func measureAdmission(ctx context.Context, b *bench, runs int) ([]*table, error) {
	// It waits for an upload that never comes: nothing is built and no pod runs.
	stored := &v1alpha1.Function{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function"},
		ObjectMeta: metav1.ObjectMeta{Name: "admission", Namespace: benchNamespace},
		Spec: v1alpha1.FunctionSpec{
			Runtime: "python3.11", Source: v1alpha1.FunctionSource{Upload: &v1alpha1.UploadSource{}},
		},
	}
	if _, err := b.apply(ctx, stored); err != nil {
		return nil, err
	}
	applies := &table{block: "admission", title: fmt.Sprintf("%d applies at the same moment, %d times", parallelApplies, runs),
		columns: []string{"apply", "applies", "median", "p99", "max", "failures"}}
	watched := b.watchWebhooks(ctx)
	if watched != nil {
		defer watched.close(context.WithoutCancel(ctx))
	}
	for _, kind := range applyKinds(stored) {
		if err := b.applyTogether(ctx, kind, 1, &sample{}); err != nil { // opens the connections
			return nil, err
		}
		s := &sample{name: kind.name}
		if err := b.applyTogether(ctx, kind, runs, s); err != nil {
			return []*table{applies}, err
		}
		applies.rows = append(applies.rows, []string{
			s.name, strconv.Itoa(len(s.values) + s.failures), milliseconds(s.values, 0.5), milliseconds(s.values, 0.99),
			milliseconds(s.values, 1), strconv.Itoa(s.failures),
		})
		b.say("%s: median %s, p99 %s", s.name, milliseconds(s.values, 0.5), milliseconds(s.values, 0.99))
	}
	if watched == nil {
		return []*table{applies}, nil
	}
	inside, err := watched.table(ctx)
	if err != nil {
		return []*table{applies}, err
	}
	return []*table{applies, inside}, nil
}

func applyKinds(stored *v1alpha1.Function) []applyKind {
	return []applyKind{
		{"a label changed: no webhook is asked", func(n int) *v1alpha1.Function {
			fn := stored.DeepCopy()
			fn.Labels = map[string]string{"n": strconv.Itoa(n)}
			return fn
		}},
		{"the spec changed: both webhooks are asked", func(n int) *v1alpha1.Function {
			fn := stored.DeepCopy()
			fn.Spec.TimeoutSeconds = int32(61 + n%800)
			return fn
		}},
		{"new, with 32 KiB of inline code: both webhooks are asked", func(n int) *v1alpha1.Function {
			fn := stored.DeepCopy()
			fn.Name = "admission-" + strconv.Itoa(n)
			fn.Spec.Source = v1alpha1.FunctionSource{Inline: &v1alpha1.InlineSource{Files: map[string]string{
				"handler.py": "def handle(event):\n    return 1\n" + strings.Repeat("# 16 characters\n", 2<<10),
			}}}
			return fn
		}},
	}
}

// applyTogether sends rounds of applies. A round begins when the one before has been answered.
func (b *bench) applyTogether(ctx context.Context, kind applyKind, rounds int, s *sample) error {
	mu := sync.Mutex{}
	for round := range rounds {
		group := sync.WaitGroup{}
		for i := range parallelApplies {
			group.Go(func() {
				took, err := b.applyDry(ctx, kind.make(round*parallelApplies+i))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					s.failures++
					b.wrongAnswer("%s: %v", kind.name, err)
					return
				}
				s.add(took)
			})
		}
		group.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// applyDry applies on a dry run and returns how long the answer took.
func (b *bench) applyDry(ctx context.Context, fn *v1alpha1.Function) (time.Duration, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fn)
	if err != nil {
		return 0, err
	}
	delete(fields, "status")
	obj := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
	began := b.now()
	err = b.client.Apply(ctx, obj, fieldOwner, client.ForceOwnership, client.DryRunAll)
	return b.now().Sub(began), err
}
