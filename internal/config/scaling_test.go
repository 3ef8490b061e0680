// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"no port":          {text: "scaling: {scaler: host}", wantErr: "scaling.scaler must be host:port"},
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
