// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func gitOptions() GitOptions {
	return GitOptions{
		Namespace: "sless-builds", Source: "1111", Inputs: "2222", Sequence: 1, BuilderImage: "sless:v1",
		StoreEnv:    []corev1.EnvVar{{Name: "S3_ENDPOINT", Value: "s3.example.com"}},
		StoreSecret: "sless-object-store", MaxBytes: 100 << 20, TimeoutSeconds: 120,
	}
}

func gitFunction() *testutil.FunctionWrapper {
	return testutil.MakeFunction("cart", "shop").UID("uid-1").Git("https://git.example.com/shop.git")
}

func TestGitJobGolden(t *testing.T) {
	t.Parallel()
	testutil.Golden(t, "gitjob_plain", GitJob(gitFunction().Obj(), gitOptions()))
	full := gitOptions()
	full.Sequence, full.Attempt, full.Known, full.Round = 7, 2, strings.Repeat("0", 40), 3
	full.CredentialFiles, full.CABundleConfigMap = []string{"known_hosts", "identity"}, "ca-bundle"
	asked := gitFunction().Annotation(v1alpha1.AnnotationReconcileAt, "now").Obj()
	asked.Spec.Source.Git.URL, asked.Spec.Source.Git.Revision = "git@git.example.com:shop.git", "v1"
	asked.Spec.Source.Git.Path, asked.Spec.Source.Git.SecretName = "fn/cart", "deploy-key"
	job := GitJob(asked, full)
	testutil.Golden(t, "gitjob_full", job)
	testutil.Golden(t, "gitjob_secret", BuildSecret(job, map[string][]byte{"identity": []byte("key")}))
}

func TestGitJobWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	queued := gitOptions()
	queued.Queued = true
	if *GitJob(gitFunction().Obj(), gitOptions()).Spec.Suspend || !*GitJob(gitFunction().Obj(), queued).Spec.Suspend {
		t.Error("only a fetch that is queued should be suspended")
	}
}

// The name decides what is fetched once and what again.
func TestGitJobName(t *testing.T) {
	t.Parallel()
	base := GitJob(gitFunction().Obj(), gitOptions()).Name
	tests := map[string]struct {
		fn       *testutil.FunctionWrapper
		change   func(*GitOptions)
		wantSame bool
	}{
		"same":             {fn: gitFunction(), wantSame: true},
		"attempt":          {fn: gitFunction(), change: func(o *GitOptions) { o.Attempt = 3 }, wantSame: true},
		"known commit":     {fn: gitFunction(), change: func(o *GitOptions) { o.Known = "x" }, wantSame: true},
		"place in a queue": {fn: gitFunction(), change: func(o *GitOptions) { o.Round, o.Queued = 3, true }, wantSame: true},
		"other function":   {fn: gitFunction().UID("uid-2")},
		"other source":     {fn: gitFunction(), change: func(o *GitOptions) { o.Source = "x" }},
		"other credential": {fn: gitFunction(), change: func(o *GitOptions) { o.Inputs = "x" }},
		"next poll":        {fn: gitFunction(), change: func(o *GitOptions) { o.Sequence = 2 }},
		"asked for":        {fn: gitFunction().Annotation(v1alpha1.AnnotationReconcileAt, "now")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt := gitOptions()
			if tc.change != nil {
				tc.change(&opt)
			}
			if got := GitJob(tc.fn.Obj(), opt).Name; (got == base) != tc.wantSame {
				t.Errorf("names %s and %s: same = %v, want %v", base, got, got == base, tc.wantSame)
			}
		})
	}
}

// A fetch checks the object store with the operator's own authority, which is there before its pod is.
func TestGitJobTrustsTheStore(t *testing.T) {
	t.Parallel()
	opt := gitOptions()
	opt.StoreAuthority = true
	job := GitJob(gitFunction().Obj(), opt)
	if !ptr.Deref(job.Spec.Suspend, false) {
		t.Error("the Job does not wait for its ConfigMap")
	}
	container := job.Spec.Template.Spec.Containers[0]
	variable := container.Env[len(container.Env)-1]
	if variable.Name != "S3_CA_FILE" || variable.Value != "/sless-authorities/"+StoreAuthority {
		t.Errorf("variable %s=%s", variable.Name, variable.Value)
	}
	volumes := job.Spec.Template.Spec.Volumes
	last := volumes[len(volumes)-1]
	if last.ConfigMap == nil || last.ConfigMap.Name != job.Name || container.VolumeMounts[len(container.VolumeMounts)-1].Name != last.Name {
		t.Errorf("volume %+v, mounts %+v", last, container.VolumeMounts)
	}
	if authorities := BuildAuthorities(job, map[string]string{StoreAuthority: "pem"}); authorities.Name != job.Name ||
		authorities.Namespace != job.Namespace || authorities.OwnerReferences[0].Name != job.Name {
		t.Errorf("the ConfigMap is %s/%s of %v", authorities.Namespace, authorities.Name, authorities.OwnerReferences)
	}
}

// A fetch holds no right in the cluster, and its credentials are files, never variables or arguments.
func TestGitJobKeepsCredentialsInFiles(t *testing.T) {
	t.Parallel()
	opt := gitOptions()
	opt.CredentialFiles = []string{"token"}
	job := GitJob(gitFunction().Obj(), opt)
	pod := job.Spec.Template.Spec
	if ptr.Deref(pod.AutomountServiceAccountToken, true) {
		t.Error("the pod gets a service account token")
	}
	for _, variable := range pod.Containers[0].Env {
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef.Name != opt.StoreSecret {
			t.Errorf("variable %s comes from Secret %s", variable.Name, from.SecretKeyRef.Name)
		}
	}
	data, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if !ptr.Deref(job.Spec.Suspend, false) || !strings.Contains(string(data), "secretName: "+job.Name) {
		t.Errorf("the Job does not wait for its Secret:\n%s", data)
	}
}
