// SPDX-License-Identifier: Apache-2.0

package naming

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestDeployNamespace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		namespace string
		want      string
	}{
		"short name":             {namespace: "default", want: "sless-fn-default"},
		"tenant":                 {namespace: "sless-cdd874dfa31ba6ca", want: "sless-fn-sless-cdd874dfa31ba6ca"},
		"longest that fits":      {namespace: strings.Repeat("a", 54), want: "sless-fn-" + strings.Repeat("a", 54)},
		"cut":                    {namespace: strings.Repeat("a", 55), want: "sless-fn-" + strings.Repeat("a", 45) + "-a144c3b0"},
		"cut at a dash, trimmed": {namespace: strings.Repeat("a", 44) + "-" + strings.Repeat("b", 18), want: ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := DeployNamespace(tc.namespace)
			if problems := validation.IsDNS1123Label(got); len(problems) > 0 {
				t.Errorf("DeployNamespace(%q) = %q is no label: %v", tc.namespace, got, problems)
			}
			if strings.Contains(got, "--") {
				t.Errorf("DeployNamespace(%q) = %q keeps a dash before the hash", tc.namespace, got)
			}
			if tc.want != "" && got != tc.want {
				t.Errorf("DeployNamespace(%q) = %q, want %q", tc.namespace, got, tc.want)
			}
		})
	}
}

func TestDeployNamespaceKeepsLongNamesApart(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 62)+"1", strings.Repeat("a", 62)+"2"
	if DeployNamespace(a) == DeployNamespace(b) {
		t.Errorf("two namespaces share %q", DeployNamespace(a))
	}
}

func TestTenantNamespace(t *testing.T) {
	t.Parallel()
	// The digests were computed with sha256sum. Other programs compute the same names.
	for subject, want := range map[string]string{
		"alice":            "sless-2bd806c97f0e00af",
		"user@example.com": "sless-b4c9a289323b21a0",
		"":                 "sless-e3b0c44298fc1c14",
	} {
		got := TenantNamespace(subject)
		if got != want {
			t.Errorf("TenantNamespace(%q) = %q, want %q", subject, got, want)
		}
		if problems := validation.IsDNS1123Label(DeployNamespace(got)); len(problems) > 0 {
			t.Errorf("DeployNamespace(%q) is no label: %v", got, problems)
		}
	}
	if TenantNamespace("Alice") == TenantNamespace("alice") {
		t.Error("TenantNamespace does not tell upper from lower case")
	}
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	if got, want := CodeRepository("docker.io/acme", "shop", "cart"), "docker.io/acme/sless-shop-cart"; got != want {
		t.Errorf("CodeRepository = %q, want %q", got, want)
	}
	if got, want := DependencyRepository("reg:5000", "shop"), "reg:5000/sless-shop-deps"; got != want {
		t.Errorf("DependencyRepository = %q, want %q", got, want)
	}
	if a, b := DependencyRepository("r", "a"), DependencyRepository("r", "a-deps"); a == b {
		t.Errorf("two namespaces have the dependencies %q", a)
	}
	// What CodeRepository says of shared repositories.
	if code, other := CodeRepository("r", "a", "b-deps"), DependencyRepository("r", "a-b"); code != other {
		t.Errorf("%q and %q are two repositories", code, other)
	}
}

func TestHashTellsPartsApart(t *testing.T) {
	t.Parallel()
	if Hash("ab", "c") == Hash("a", "bc") {
		t.Error("Hash does not tell where a part ends")
	}
	if Key("a") == Key("a", "") {
		t.Error("Key ignores an empty part")
	}
	if problems := validation.IsDNS1123Label(BuildJob(Key("x"))); len(problems) > 0 {
		t.Errorf("BuildJob(Key) is no label: %v", problems)
	}
}

func TestVirtualHost(t *testing.T) {
	t.Parallel()
	if got, want := VirtualHost("shop", "cart"), "cart.sless-fn-shop.fn.sless.internal"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// A name in DNS has at most 253 characters, and a part of it at most 63.
	long := VirtualHost(strings.Repeat("n", 63), strings.Repeat("f", 63))
	if len(long) > 253 {
		t.Errorf("%s has %d characters", long, len(long))
	}
}

func TestCronJob(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		trigger string
		want    string
	}{
		"short name":        {trigger: "nightly", want: "cron-nightly"},
		"longest that fits": {trigger: strings.Repeat("a", 47), want: "cron-" + strings.Repeat("a", 47)},
		"cut":               {trigger: strings.Repeat("a", 52), want: "cron-" + strings.Repeat("a", 38) + "-" + Hash(strings.Repeat("a", 52))[:8]},
		"cut at a dash":     {trigger: strings.Repeat("a", 37) + "-" + strings.Repeat("b", 14)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := CronJob(tc.trigger)
			if len(got) > 52 || strings.Contains(got, "--") || len(validation.IsDNS1123Label(got)) > 0 {
				t.Errorf("CronJob(%q) = %q", tc.trigger, got)
			}
			if tc.want != "" && got != tc.want {
				t.Errorf("CronJob(%q) = %q, want %q", tc.trigger, got, tc.want)
			}
		})
	}
	if CronJob(strings.Repeat("a", 51)+"1") == CronJob(strings.Repeat("a", 51)+"2") {
		t.Error("two long names share a CronJob")
	}
}

func TestHostRoute(t *testing.T) {
	t.Parallel()
	if HostRoute("a-b", "c") == HostRoute("a", "b-c") {
		t.Error("two triggers share a name")
	}
	long := HostRoute(strings.Repeat("n", 63), strings.Repeat("t", 52))
	if problems := validation.IsDNS1123Label(long); len(problems) > 0 {
		t.Errorf("%q is no label: %v", long, problems)
	}
	if got := HostRoute("shop", "cart"); !strings.HasPrefix(got, "host-shop-cart-") {
		t.Errorf("HostRoute = %q", got)
	}
}
