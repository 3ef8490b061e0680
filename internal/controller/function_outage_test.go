// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/testutil"
)

// uploadedFunction is a Function with stored code that nobody else has.
func uploadedFunction(ctx context.Context, name, namespace string) *v1alpha1.Function {
	GinkgoHelper()
	packed, err := archive.FromFiles(map[string]string{"handler.py": pythonHandler + "# " + namespace + " " + name},
		archive.Options{Prefix: archive.CodePrefix})
	Expect(err).NotTo(HaveOccurred())
	Expect(platformS.store.Put(ctx, objectstore.CodeKey(namespace, packed.Digest), bytes.NewReader(packed.Data),
		int64(len(packed.Data)), nil)).To(Succeed())
	fn := testutil.MakeFunction(name, namespace).Obj()
	fn.Spec.Source.Upload = &v1alpha1.UploadSource{SHA256: packed.Digest[len("sha256:"):]}
	return fn
}

var _ = Describe("Functions while a server of the platform gets nowhere", Serial, func() {
	DescribeTable("tell it, go on by themselves, and hold up no other",
		func(ctx SpecContext, server func() *outage, kind outageKind, want string) {
			namespace := newNamespace(ctx)
			bystander := readyFunction(ctx, newNamespace(ctx))
			functions := make([]*v1alpha1.Function, functionWorkers+1)
			for i := range functions {
				functions[i] = uploadedFunction(ctx, fmt.Sprintf("f%d", i), namespace)
			}
			DeferCleanup(server().set, none)
			server().set(kind)
			for _, fn := range functions {
				Expect(k8sClient.Create(ctx, fn)).To(Succeed())
			}

			By("telling it: there are fewer workers than Functions")
			for _, fn := range functions {
				readyIs(ctx, fn, "False/"+want)
				Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, v1alpha1.ConditionReconciling)).To(BeTrue())
			}

			By("deleting another Function")
			Expect(k8sClient.Delete(ctx, bystander)).To(Succeed())
			Eventually(func() bool {
				return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(bystander), bystander))
			}).Should(BeTrue())

			By("going on")
			server().set(none)
			for _, fn := range functions {
				Eventually(conditionOf(ctx, fn, v1alpha1.ConditionReady)).Should(Equal("Unknown/RollingOut"))
			}
		},
		Entry("a store that stalls", storeOutage, hanging, v1alpha1.ReasonStoreUnavailable),
		Entry("a store that never falls silent", storeOutage, trickling, v1alpha1.ReasonStoreUnavailable),
		Entry("a registry that stalls", registryOutage, hanging, v1alpha1.ReasonRegistryUnavailable),
	)

	It("take a store that takes no code for one that does not answer", func(ctx SpecContext) {
		DeferCleanup(platformS.storeOutage.set, none)
		platformS.storeOutage.set(hanging)
		fn := testutil.MakeFunction("inline", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/StoreUnavailable")
		platformS.storeOutage.set(none)
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionReady)).Should(Equal("Unknown/RollingOut"))
	})
})

// The platform is there once the suite runs.
func storeOutage() *outage    { return &platformS.storeOutage }
func registryOutage() *outage { return &platformS.registryOutage }

func TestRunPhasesEndsInTime(t *testing.T) {
	t.Parallel()
	var began []string
	phase := func(name string, run func(context.Context) error) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			began = append(began, name)
			return run(ctx)
		}
	}
	err := runPhases(t.Context(), time.Millisecond, 0,
		phase("quick", func(context.Context) error { return nil }),
		phase("endless", func(ctx context.Context) error {
			<-ctx.Done()
			return storeFault(fmt.Errorf("reading: %w", ctx.Err()))
		}),
		phase("later", func(context.Context) error { return nil }),
	)
	fault := asPhaseError(err)
	if fault == nil || fault.kind != kindPlatform || fault.reason != v1alpha1.ReasonStoreUnavailable {
		t.Errorf("got %v, want a fault of the platform's store", err)
	}
	if fmt.Sprint(began) != "[quick endless]" {
		t.Errorf("began %v", began)
	}
}

// TestAppendFault has code that cannot be read while it is sent to the registry.
func TestAppendFault(t *testing.T) {
	t.Parallel()
	layer := func(err error) error {
		return fmt.Errorf("pushing: %w", &image.LayerError{Digest: "sha256:0", Err: err})
	}
	tests := map[string]struct {
		err                   error
		wantReason, condition string
	}{
		"the store stalls":         {layer(context.DeadlineExceeded), v1alpha1.ReasonStoreUnavailable, v1alpha1.ConditionSourceReady},
		"the store's answer ends":  {layer(io.ErrUnexpectedEOF), v1alpha1.ReasonStoreUnavailable, v1alpha1.ConditionSourceReady},
		"other code is stored":     {layer(&archive.DigestError{}), v1alpha1.ReasonRegistryRefused, v1alpha1.ConditionBuilt},
		"the registry stalls":      {context.DeadlineExceeded, v1alpha1.ReasonRegistryUnavailable, v1alpha1.ConditionBuilt},
		"the registry says no":     {errors.New("no"), v1alpha1.ReasonRegistryRefused, v1alpha1.ConditionBuilt},
		"the registry ends midway": {io.ErrUnexpectedEOF, v1alpha1.ReasonRegistryUnavailable, v1alpha1.ConditionBuilt},
	}
	for name, tc := range tests {
		s := newFunctionScope(testutil.MakeFunction("f", "ns").Obj(), time.Now())
		s.succeed(v1alpha1.ConditionSourceReady, v1alpha1.ReasonStored, "stored")
		fault := asPhaseError(appendFault(s, tc.err))
		if fault.reason != tc.wantReason || fault.condition != tc.condition || fault.kind != kindPlatform {
			t.Errorf("%s: got %s of %s", name, fault.reason, fault.condition)
		}
		// The condition that tells of it must not be True.
		if _, done := s.done[tc.condition]; done {
			t.Errorf("%s: %s is met all the same", name, tc.condition)
		}
	}
}
