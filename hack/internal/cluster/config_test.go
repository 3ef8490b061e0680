// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	stdflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/hack/internal/daemon"
	"github.com/naeel/sless/hack/internal/pki"
)

var update = stdflag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), run with -update if this is right:\n%s", name, diff)
	}
}

// fixed gives a cluster and certificates with made-up paths.
func fixed() (*Cluster, *certificates) {
	pair := func(name string) pki.Pair {
		return pki.Pair{CertFile: "/state/pki/" + name + ".crt", KeyFile: "/state/pki/" + name + ".key"}
	}
	certs := &certificates{
		ca: pair("ca"), etcdCA: pair("etcd-ca"), frontProxyCA: pair("front-proxy-ca"), leaves: map[string]pki.Pair{},
		signing: "/state/pki/service-account.key", verifying: "/state/pki/service-account.pub",
	}
	names := []string{partEtcd, certEtcdClient, certFrontProxy}
	for _, leaf := range clusterLeaves() {
		names = append(names, leaf.Name)
	}
	for _, name := range names {
		certs.leaves[name] = pair(name)
	}
	return &Cluster{paths: paths{state: "/state"}}, certs
}

func TestConfigFiles(t *testing.T) {
	t.Parallel()
	c, certs := fixed()
	files := append(c.paths.containerdFiles("/usr/lib/cni", "1400"), c.paths.kubeletFiles(certs)...)
	for _, f := range files {
		data, err := render(f.template, f.values)
		if err != nil {
			t.Fatalf("%s: %v", f.path, err)
		}
		name := filepath.Base(f.path)
		golden(t, name, data)
		if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".conflist") {
			var anything map[string]any
			if err := yaml.UnmarshalStrict(data, &anything); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestCoreDNSObjects(t *testing.T) {
	t.Parallel()
	for name, forward := range map[string]bool{"coredns.yaml": true, "coredns-offline.yaml": false} {
		data, err := render(corednsTemplate, map[string]any{
			"Domain": domain, "DNS": dnsService, "Image": "sless.local/coredns:v1.0.0", "Forward": forward,
		})
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, data)
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			var anything map[string]any
			if err := yaml.UnmarshalStrict([]byte(doc), &anything); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	data, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rules.nft", data)
}

func TestRenderWantsAllValues(t *testing.T) {
	t.Parallel()
	if _, err := render("{{.Missing}}", map[string]string{}); err == nil {
		t.Error("a missing value is no error")
	}
}

func TestCommandLines(t *testing.T) {
	t.Parallel()
	c, certs := fixed()
	programs := tools{kubernetes: "/tools/kubernetes", etcd: "/tools/etcd"}
	var b strings.Builder
	var names []string
	for _, s := range []daemon.Spec{
		c.etcdSpec(programs, certs), c.apiServerSpec(programs, certs), c.managerSpec(programs, certs),
		c.schedulerSpec(programs, certs), c.kubeletSpec(programs, certs), c.proxySpec(programs),
	} {
		names = append(names, s.Name)
		_, _ = fmt.Fprintf(&b, "%s\n", s.Path)
		for _, arg := range s.Args {
			_, _ = fmt.Fprintf(&b, "  %s\n", arg)
		}
		for _, in := range s.Inputs {
			_, _ = fmt.Fprintf(&b, "  < %s\n", in)
		}
	}
	golden(t, "commands.txt", []byte(b.String()))
	if diff := cmp.Diff(parts()[1:], names); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestCertificatesAndKubeconfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &Cluster{paths: paths{state: dir}, Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }}
	certs, err := c.makeCertificates()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.writeKubeconfigs(certs); err != nil {
		t.Fatal(err)
	}
	again, err := c.makeCertificates()
	if err != nil {
		t.Fatal(err)
	}
	for name, leaf := range certs.leaves {
		if !slices.Equal(leaf.CertPEM, again.leaves[name].CertPEM) {
			t.Errorf("a second run made another certificate %s", name)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.paths.kubeconfig(certAdmin))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:6443" || len(config.CertData) == 0 || len(config.CAData) == 0 {
		t.Errorf("kubeconfig points at %s", config.Host)
	}
	info, err := os.Stat(c.paths.kubeconfig(certAdmin))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info.Mode(), err)
	}
}

func TestPodResolvConf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, want string }{
		"usual":           {"search lan\nnameserver 192.0.2.53\noptions ndots:1\n", "nameserver 192.0.2.53\n"},
		"only loopback":   {"nameserver 127.0.0.53\nnameserver ::1\n", ""},
		"loopback first":  {"nameserver 127.0.0.1\nnameserver 192.0.2.1 # main\n", "nameserver 192.0.2.1\n"},
		"IPv6 is dropped": {"nameserver fd00::1\n", ""},
		"comments":        {"# nameserver 192.0.2.1\n;x\n\nnameserver\n", ""},
		"nonsense":        {"nameserver dns.example\n", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := podResolvConf(tc.text); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPullEnv(t *testing.T) {
	t.Parallel()
	const ours = "127.0.0.1,localhost,10.244.0.0/24,10.96.0.0/16,.cluster.local"
	cases := map[string]struct{ environ, want []string }{
		"nothing to say": {[]string{"PATH=/bin", "HOME=/root", "TOKEN=x"}, nil},
		"a proxy": {
			[]string{"HTTPS_PROXY=http://p:1", "no_proxy=lan"}, []string{"HTTPS_PROXY=http://p:1", "NO_PROXY=lan," + ours},
		},
		"certificates": {[]string{"SSL_CERT_FILE=/ca.crt"}, []string{"SSL_CERT_FILE=/ca.crt"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, pullEnv(tc.environ)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMinorRange(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v1.37.2": "1.37.x", "v1.38.0": "1.38.x", "odd": "odd"} {
		if got := minorRange(version); got != want {
			t.Errorf("range of %s: %s, want %s", version, got, want)
		}
	}
}
