//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

// What config/local tells the gateway about whose tokens it takes, and where its API port is.
const (
	issuerAddress = nodeAddress + ":18099"
	issuerURL     = "http://" + issuerAddress
	audience      = "sless"
	apiURL        = "http://" + nodeAddress + ":30081"
)

var _ = Describe("A tenant who uploads a zip", Ordered, func() {
	var tenant, namespace string

	BeforeAll(func(ctx SpecContext) { tenant, namespace = newTenant(ctx) })

	It("gets a function that answers, and the same zip again changes nothing", func(ctx SpecContext) {
		fn := uploaded(namespace, "zipped")
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("Unknown/WaitingForUpload"))
		code := zipOf(map[string]string{
			"handler.py":    "import lib.words\ndef handle(event, context):\n    return lib.words.greeting()\n",
			"lib/words.py":  "def greeting():\n    return 'from a zip'\n",
			"data/list.csv": "1,2,3\n",
		})
		first := issuer.upload(ctx, namespace, fn.Name, tenant, code)
		Expect(first.status).To(Equal(http.StatusOK), first.body)
		waitReady(ctx, fn)
		answers(ctx, fn, "from a zip")

		before, deployment := current(ctx, fn), deploymentOf(ctx, fn)
		second := issuer.upload(ctx, namespace, fn.Name, tenant, code)
		Expect(second.body).To(ContainSubstring(`"unchanged":true`))
		Consistently(func() string { return current(ctx, fn).ResourceVersion }, pause).Should(Equal(before.ResourceVersion))
		Expect(deploymentOf(ctx, fn).ResourceVersion).To(Equal(deployment.ResourceVersion))

		By("uploading other code")
		third := issuer.upload(ctx, namespace, fn.Name, tenant, zipOf(map[string]string{"handler.py": v1}))
		Expect(third.status).To(Equal(http.StatusOK), third.body)
		answers(ctx, fn, "one")

		By("uploading what is no good: the old code goes on answering")
		for name, bad := range map[string][]byte{
			"traversal": zipOf(map[string]string{"handler.py": v1, "../evil.py": ""}),
			"bomb":      zipOf(map[string]string{"handler.py": v1, "zeros": string(make([]byte, 100<<20))}),
			"no zip":    []byte("PK but not really"),
		} {
			refused := issuer.upload(ctx, namespace, fn.Name, tenant, bad)
			Expect(refused.status).To(Equal(http.StatusBadRequest), name+": "+refused.body)
			Expect(refused.body).To(ContainSubstring(`"error"`))
		}
		Expect(get(ctx, fn).Body).To(Equal("one"))
	})

	It("has dependencies installed from the zip's own files", func(ctx SpecContext) {
		fn := uploaded(namespace, "zipped-node")
		fn.Spec.Runtime = "nodejs20"
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		answer := issuer.upload(ctx, namespace, fn.Name, tenant, zipOf(map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.6"}}`,
			"handler.js": "const s = require('slugify');\nconst fs = require('fs');\n" +
				"exports.handle = () => s('From A Zip') + (fs.existsSync(__dirname + '/.npmrc') ? ' with secrets' : '');\n",
			".npmrc": "fetch-retries=3\n",
		}))
		Expect(answer.status).To(Equal(http.StatusOK), answer.body)
		waitReady(ctx, fn)
		answers(ctx, fn, "From-A-Zip")
	})

	It("is refused without a token, with another's, and for what does not exist", func(ctx SpecContext) {
		code := zipOf(map[string]string{"handler.py": v1})
		Expect(issuer.upload(ctx, namespace, "zipped", "", code).status).To(Equal(http.StatusUnauthorized))
		Expect(issuer.upload(ctx, namespace, "zipped", "somebody-else", code).status).To(Equal(http.StatusForbidden))
		Expect(issuer.upload(ctx, namespace, "nothing", tenant, code).status).To(Equal(http.StatusNotFound))
	})
})

func uploaded(namespace, name string) *v1alpha1.Function {
	fn := function(namespace, name, "python3.11", nil)
	fn.Spec.Source = v1alpha1.FunctionSource{Upload: &v1alpha1.UploadSource{}}
	return fn
}

func zipOf(files map[string]string) []byte {
	GinkgoHelper()
	out := &bytes.Buffer{}
	w := zip.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		Expect(err).NotTo(HaveOccurred())
		_, err = io.WriteString(f, files[name])
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(w.Close()).To(Succeed())
	return out.Bytes()
}

// tokenIssuer signs the tokens of the tenants.
type tokenIssuer struct{ *testutil.TokenIssuer }

// issuer is the one of all processes, and nil on another cluster.
var issuer *tokenIssuer

// serveIssuer publishes the keys of a new issuer where the gateway looks for them, and returns what issuerOf needs.
func serveIssuer() []byte {
	GinkgoHelper()
	made, err := testutil.NewTokenIssuer()
	Expect(err).NotTo(HaveOccurred())
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", issuerAddress)
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: made} //nolint:gosec // It lives as long as the stories.
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	key, err := made.Key()
	Expect(err).NotTo(HaveOccurred())
	return key
}

func issuerOf(key []byte) *tokenIssuer {
	GinkgoHelper()
	shared, err := testutil.TokenIssuerOf(key)
	Expect(err).NotTo(HaveOccurred())
	return &tokenIssuer{shared}
}

type uploadAnswer struct {
	status int
	body   string
}

// upload sends a zip with a token for sub, or without a token when sub is empty.
func (i *tokenIssuer) upload(ctx context.Context, namespace, name, sub string, code []byte) uploadAnswer {
	GinkgoHelper()
	url := apiURL + "/v1/namespaces/" + namespace + "/functions/" + name + "/upload"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(code))
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Content-Type", "application/zip")
	if sub != "" {
		signed, err := i.Token(issuerURL, audience, sub)
		Expect(err).NotTo(HaveOccurred())
		req.Header.Set("Authorization", "Bearer "+signed)
	}
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	Expect(err).NotTo(HaveOccurred())
	return uploadAnswer{status: resp.StatusCode, body: string(body)}
}
