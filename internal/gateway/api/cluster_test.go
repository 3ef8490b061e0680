// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// cluster is a real API server.
var cluster struct {
	admin   client.Client
	gateway client.Client // has the rights of config/gateway/role.yaml and no others
}

func TestMain(m *testing.M) {
	code := 1
	stop, err := startCluster()
	if err == nil {
		code = m.Run()
		err = stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func startCluster() (stop func() error, err error) {
	config := filepath.Join("..", "..", "..", "config")
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(config, "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}
	restConfig, err := env.Start()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = env.Stop()
		}
	}()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	if cluster.admin, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if err := bindRole(filepath.Join(config, "gateway", "role.yaml"), "gateway"); err != nil {
		return nil, err
	}
	user, err := env.AddUser(envtest.User{Name: "gateway"}, nil)
	if err != nil {
		return nil, err
	}
	if cluster.gateway, err = NewClient(user.Config()); err != nil {
		return nil, err
	}
	return env.Stop, nil
}

func bindRole(file, user string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := cluster.admin.Create(context.Background(), obj); err != nil {
			return err
		}
	}
	return nil
}

// createFunction makes a Function in the namespace of subject.
func createFunction(t testing.TB, subject, name string, tweaks ...func(*v1alpha1.Function)) *v1alpha1.Function {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: naming.TenantNamespace(subject)}}
	if err := cluster.admin.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	fn := &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name},
		Spec: v1alpha1.FunctionSpec{
			Runtime: "python3.11", Source: v1alpha1.FunctionSource{Upload: &v1alpha1.UploadSource{}},
		},
	}
	for _, tweak := range tweaks {
		tweak(fn)
	}
	if err := cluster.admin.Create(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(fn)
	t.Cleanup(func() { removeFunction(t, key) })
	return fn
}

// removeFunction removes a Function for good, if it is there, so that the same test can run again.
func removeFunction(t testing.TB, key types.NamespacedName) {
	t.Helper()
	fn := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	finalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	err := errors.Join(
		client.IgnoreNotFound(cluster.admin.Patch(context.Background(), fn, finalizers)),
		client.IgnoreNotFound(cluster.admin.Delete(context.Background(), fn)),
	)
	if err != nil {
		t.Error(err)
	}
}

// readHello reads the Function "hello" of subject.
func readHello(t testing.TB, subject string) *v1alpha1.Function {
	t.Helper()
	fn := &v1alpha1.Function{}
	key := types.NamespacedName{Namespace: naming.TenantNamespace(subject), Name: "hello"}
	if err := cluster.admin.Get(t.Context(), key, fn); err != nil {
		t.Fatal(err)
	}
	return fn
}

func deleteFunction(t testing.TB, fn *v1alpha1.Function) {
	t.Helper()
	if err := cluster.admin.Delete(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}
