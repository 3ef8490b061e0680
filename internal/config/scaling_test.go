// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestScaling(t *testing.T) {
	t.Parallel()
	defaults := Scaling{
		Scaler: "keda-add-ons-http-external-scaler.keda:9090", Namespace: "keda",
		Interceptor: "keda-add-ons-http-interceptor-proxy.keda.svc:8080", Operator: "keda-operator.keda",
		StartupTimeoutSeconds: 60, PollingIntervalSeconds: 2,
	}
	tests := map[string]struct {
		text    string
		want    func(*Scaling)
		wantErr string
	}{
		"defaults": {want: func(*Scaling) {}},
		"set values stay": {
			text: "scaling: {scaler: 's:80', namespace: other, startupTimeoutSeconds: 5, pollingIntervalSeconds: 1}",
			want: func(s *Scaling) {
				s.Scaler, s.Namespace, s.StartupTimeoutSeconds, s.PollingIntervalSeconds = "s:80", "other", 5, 1
			},
		},
		"no port": {text: "scaling: {scaler: host}", wantErr: "scaling.scaler must be host:port"},
		"other addresses": {
			text: "scaling: {scaler: '[fd00::1]:80', interceptor: 'example.com:8080', operator: keda.ops.svc.cluster.local}",
			want: func(s *Scaling) {
				s.Scaler, s.Interceptor, s.Operator = "[fd00::1]:80", "example.com:8080", "keda.ops.svc.cluster.local"
			},
		},
		"a URL":            {text: "scaling: {interceptor: 'http://host:80'}", wantErr: "scaling.interceptor must be host:port"},
		"no number":        {text: "scaling: {interceptor: 'host:http'}", wantErr: "scaling.interceptor must be host:port"},
		"no namespace":     {text: "scaling: {operator: keda-operator}", wantErr: "scaling.operator must be <service>.<namespace>"},
		"no service":       {text: "scaling: {operator: 'keda_.ns'}", wantErr: "scaling.operator must be <service>.<namespace>"},
		"no host":          {text: "scaling: {scaler: ':90'}", wantErr: "scaling.scaler must be host:port"},
		"start too long":   {text: "scaling: {startupTimeoutSeconds: 601}", wantErr: "startupTimeoutSeconds must be 1 to 600"},
		"negative polling": {text: "scaling: {pollingIntervalSeconds: -1}", wantErr: "pollingIntervalSeconds must be at least 1"},
		"unknown field":    {text: "scaling: {max: 0}", wantErr: "unknown field"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(write(t, complete+tc.text), func(string) string { return "" })
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := defaults
			tc.want(&want)
			if diff := cmp.Diff(want, got.Scaling); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestServiceOf(t *testing.T) {
	t.Parallel()
	keda := types.NamespacedName{Namespace: "keda", Name: "scaler"}
	for address, want := range map[string]types.NamespacedName{
		"scaler.keda:9090": keda, "scaler.keda": keda, "scaler.keda.svc.cluster.local.:9090": keda, "scaler.keda.svc:80": keda,
		"scaler": {}, "scaler:80": {}, "scaler.example.com:80": {}, ".keda:80": {}, "": {}, "10.0.0.1:80": {}, "[::1]:80": {},
		"Scaler_.keda:80": {}, strings.Repeat("s", 64) + ".keda": {},
	} {
		got, ok := ServiceOf(address)
		if got != want || ok != (want != types.NamespacedName{}) {
			t.Errorf("%q: %v, %v, want %v", address, got, ok, want)
		}
	}
}
