// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/testutil"
)

func secretVariable(variable, secret, key string, optional bool) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key, Optional: &optional,
	}}}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("f", "n").Env("PLAIN", "1").Obj()
	fn.Spec.Env = append(fn.Spec.Env,
		secretVariable("A", "db", "password", false),
		secretVariable("B", "db", "user", true),
		secretVariable("C", "db", "password", true),
		corev1.EnvVar{Name: "D", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "mode",
		}}},
		corev1.EnvVar{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	)
	optional := true
	fn.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "extra"}, Optional: &optional,
	}}}
	fn.Spec.Volumes = []v1alpha1.FunctionVolume{{Name: "certs", MountPath: "/certs", Secret: &v1alpha1.SecretReference{Name: "tls"}}}
	want := []Reference{
		{Source: resources.Source{Kind: resources.SourceConfigMap, Name: "extra"}, AllKeys: true},
		{Source: resources.Source{Kind: resources.SourceConfigMap, Name: "settings"}, Keys: []string{"mode"},
			Required: []string{"mode"}, MustExist: true},
		{Source: resources.Source{Kind: resources.SourceSecret, Name: "db"}, Keys: []string{"password", "user"},
			Required: []string{"password"}, MustExist: true},
		{Source: resources.Source{Kind: resources.SourceSecret, Name: "tls"}, AllKeys: true, MustExist: true},
	}
	if diff := cmp.Diff(want, References(fn)); diff != "" {
		t.Errorf("References (-want +got):\n%s", diff)
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	source := resources.Source{Kind: resources.SourceSecret, Name: "db"}
	data := map[string][]byte{"password": []byte("p"), "user": []byte("u"), "other": []byte("o")}
	tests := map[string]struct {
		reference Reference
		data      map[string][]byte
		want      map[string][]byte
		wantError string
	}{
		"only the referenced keys": {
			reference: Reference{Source: source, Keys: []string{"password"}, Required: []string{"password"}, MustExist: true},
			data:      data, want: map[string][]byte{"password": []byte("p")},
		},
		"all keys":             {reference: Reference{Source: source, AllKeys: true, MustExist: true}, data: data, want: data},
		"optional key missing": {reference: Reference{Source: source, Keys: []string{"none"}}, data: data, want: map[string][]byte{}},
		"optional object":      {reference: Reference{Source: source, Keys: []string{"none"}}},
		"required key missing": {
			reference: Reference{Source: source, Keys: []string{"none"}, Required: []string{"none"}, MustExist: true},
			data:      data, wantError: "Secret db in namespace shop has no key none",
		},
		"object missing": {
			reference: Reference{Source: source, AllKeys: true, MustExist: true},
			wantError: "Secret db does not exist in namespace shop",
		},
		"object there but empty": {
			reference: Reference{Source: source, AllKeys: true, MustExist: true}, data: SecretData(&corev1.Secret{}),
			want: map[string][]byte{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.reference.Pick("shop", tc.data)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Fatalf("error is %v, want %q", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Pick (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigMapData(t *testing.T) {
	t.Parallel()
	got := ConfigMapData(&corev1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0xff}}})
	if diff := cmp.Diff(map[string][]byte{"a": []byte("1"), "b": {0xff}}, got); diff != "" {
		t.Errorf("ConfigMapData (-want +got):\n%s", diff)
	}
}
