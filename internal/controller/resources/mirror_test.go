// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func TestMirrorGolden(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Obj()
	testutil.Golden(t, "mirror_secret", Mirror(fn, Source{SourceSecret, "db"}, map[string][]byte{"password": []byte("p")}))
	testutil.Golden(t, "mirror_configmap", Mirror(fn, Source{SourceConfigMap, "settings"},
		map[string][]byte{"text": []byte("grün"), "binary": {0xff, 0x00}}))
}

func TestMirrorNameFollowsTheContent(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction(strings.Repeat("a", 52), "shop").UID("uid-1").Obj()
	other := testutil.MakeFunction("cart", "shop").UID("uid-2").Obj()
	source := Source{SourceSecret, "db"}
	one, two := map[string][]byte{"k": []byte("1")}, map[string][]byte{"k": []byte("2")}
	name := MirrorName(fn, source, one)
	if len(name) > 63 {
		t.Errorf("%q has %d characters", name, len(name))
	}
	if name != MirrorName(fn, source, map[string][]byte{"k": []byte("1")}) {
		t.Error("the same content has two names")
	}
	for what, same := range map[string]string{
		"another value":    MirrorName(fn, source, two),
		"another object":   MirrorName(fn, Source{SourceSecret, "db2"}, one),
		"another kind":     MirrorName(fn, Source{SourceConfigMap, "db"}, one),
		"another Function": MirrorName(other, source, one),
	} {
		if same == name {
			t.Errorf("%s has the same name", what)
		}
	}
}

// Pods must refer to the copies alone: nothing of the user namespace can be seen from the deploy namespace.
func TestPodsReferToTheCopies(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Env("PLAIN", "x").Obj()
	optional := true
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	fn.Spec.Env = append(fn.Spec.Env,
		corev1.EnvVar{Name: "B", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("settings"), Key: "mode"}}},
		corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("db"), Key: "password"}}},
		corev1.EnvVar{Name: "GONE", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("none"), Key: "k", Optional: &optional}}},
	)
	fn.Spec.EnvFrom = []corev1.EnvFromSource{
		{Prefix: "DB_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("db")}},
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("settings")}},
	}
	fn.Spec.Volumes = []v1alpha1.FunctionVolume{
		{Name: "db", MountPath: "/db", Secret: &v1alpha1.SecretReference{Name: "db"}},
		{Name: "settings", MountPath: "/settings", ConfigMap: &v1alpha1.ConfigMapReference{Name: "settings"}},
	}
	opt := deploymentOptions()
	opt.Mirrors = map[Source]string{{SourceSecret, "db"}: "cart-db", {SourceConfigMap, "settings"}: "cart-settings"}
	before := fn.DeepCopy()
	testutil.Golden(t, "deployment_references", Deployment(fn, opt))
	if fn.Spec.Env[1].ValueFrom.ConfigMapKeyRef.Name != before.Spec.Env[1].ValueFrom.ConfigMapKeyRef.Name {
		t.Error("building a Deployment changed the Function")
	}
}
