// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/objectstore"
)

// digestOf makes a digest of one character.
func digestOf(char string) string { return "sha256:" + strings.Repeat(char, 64) }

func usedFunction() *v1alpha1.Function {
	fn := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	fn.Spec.Source.Upload = &v1alpha1.UploadSource{SHA256: strings.Repeat("a", 64)}
	fn.Status.SourceDigest = digestOf("b")
	fn.Status.Image = "r:5000/sless-shop-cart@" + digestOf("1")
	fn.Status.History = []v1alpha1.ImageRecord{{
		Image: "r:5000/sless-shop-cart@" + digestOf("2"), Base: "r:5000/sless-shop-deps@" + digestOf("3"), SourceDigest: digestOf("c"),
	}, {Image: "r:5000/sless-shop-cart@" + digestOf("4")}}
	return fn
}

func TestUsageOfObjects(t *testing.T) {
	t.Parallel()
	usage := NewUsage()
	usage.AddFunction(usedFunction())
	usage.AddFunction(&v1alpha1.Function{}) // has nothing yet
	usage.AddBuild(&corev1.PodSpec{
		InitContainers: []corev1.Container{{Args: []string{"fetch", "--key=" + objectstore.CodeKey("shop", digestOf("d"))}}},
	})
	for key, want := range map[string]bool{
		objectstore.CodeKey("shop", digestOf("a")): true, // wanted, not looked at yet
		objectstore.CodeKey("shop", digestOf("b")): true, // seen last
		objectstore.CodeKey("shop", digestOf("c")): true, // of the history
		objectstore.CodeKey("shop", digestOf("d")): true, // context of a build
		objectstore.CodeKey("shop", digestOf("e")): false,
		objectstore.CodeKey("bank", digestOf("a")): false, // of another namespace
	} {
		if got := usage.NeedsObject(key); got != want {
			t.Errorf("%s: got %v", key, got)
		}
		review := strings.TrimSuffix(key, objectstore.CodeSuffix) + objectstore.ReviewSuffix
		if got := usage.NeedsObject(review); got != want {
			t.Errorf("%s: got %v", review, got)
		}
	}
}

func TestUsageOfImages(t *testing.T) {
	t.Parallel()
	usage := NewUsage()
	usage.AddFunction(usedFunction())
	ready := &v1alpha1.Function{}
	ready.Spec.Source.Image = &v1alpha1.ImageSource{Ref: "docker.io/acme/sless-shop-old:" + strings.Repeat("5", 32)}
	usage.AddFunction(ready)
	usage.AddPod(&corev1.PodSpec{
		InitContainers: []corev1.Container{{Image: "r:5000/sless-shop-init@" + digestOf("6")}},
		Containers:     []corev1.Container{{Image: "r:5000/sless-shop-cart@" + digestOf("7")}},
	})
	usage.AddBuild(&corev1.PodSpec{Containers: []corev1.Container{{
		Image: "sless:v1", Args: []string{"push", "--target=r:5000/sless-shop-deps:8", "--base=r:5000/sless-runtime@" + digestOf("9")},
	}}})
	tests := map[string]struct {
		image RegistryImage
		want  bool
	}{
		"of the status":               {RegistryImage{"r:5000/sless-shop-cart", digestOf("1"), nil}, true},
		"of the history":              {RegistryImage{"r:5000/sless-shop-cart", digestOf("2"), []string{"x"}}, true},
		"base of the history":         {RegistryImage{"r:5000/sless-shop-deps", digestOf("3"), nil}, true},
		"record without a base":       {RegistryImage{"r:5000/sless-shop-cart", digestOf("4"), nil}, true},
		"ready image, another name":   {RegistryImage{"acme/sless-shop-old", digestOf("0"), []string{strings.Repeat("5", 32)}}, true},
		"of a first step":             {RegistryImage{"r:5000/sless-shop-init", digestOf("6"), nil}, true},
		"of a pod":                    {RegistryImage{"r:5000/sless-shop-cart", digestOf("7"), nil}, true},
		"being pushed":                {RegistryImage{"r:5000/sless-shop-deps", digestOf("0"), []string{"7", "8"}}, true},
		"start of a build":            {RegistryImage{"r:5000/sless-runtime", digestOf("9"), nil}, true},
		"of nothing":                  {RegistryImage{"r:5000/sless-shop-cart", digestOf("0"), []string{"7"}}, false},
		"of another repository":       {RegistryImage{"r:5000/sless-shop-cat", digestOf("1"), nil}, false},
		"same digest, another holder": {RegistryImage{"r:5000/sless-bank-cart", digestOf("2"), nil}, false},
	}
	for name, tc := range tests {
		if got := usage.NeedsImage(tc.image); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestUsageOfRepositories(t *testing.T) {
	t.Parallel()
	usage := NewUsage()
	usage.AddFunction(usedFunction())
	usage.AddFunction(usedFunction()) // what two need is one
	usage.AddPod(&corev1.PodSpec{Containers: []corev1.Container{
		{Image: "docker.io/acme/sless-shop-cart:1"}, {Image: "not an image"}, {},
	}})
	for repository, want := range map[string][]string{
		"r:5000/sless-shop-cart": {
			"r:5000/sless-shop-cart@" + digestOf("1"), "r:5000/sless-shop-cart@" + digestOf("2"), "r:5000/sless-shop-cart@" + digestOf("4"),
		},
		"r:5000/sless-shop-deps":         {"r:5000/sless-shop-deps@" + digestOf("3")},
		"docker.io/acme/sless-shop-cart": {"index.docker.io/acme/sless-shop-cart:1"},
		"acme/sless-shop-cart":           {"index.docker.io/acme/sless-shop-cart:1"},
		"r:5000/sless-shop":              nil,
	} {
		if diff := cmp.Diff(want, usage.ImagesIn(repository)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", repository, diff)
		}
	}
}

func TestMadeBySless(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("a", 32)
	for name, tc := range map[string]struct {
		tags []string
		want bool
	}{
		"a hash":             {[]string{hash}, true},
		"two":                {[]string{hash, strings.Repeat("b", 32)}, true},
		"a tag of a user":    {[]string{hash, "v1"}, false},
		"longer":             {[]string{hash + "a"}, false},
		"upper case":         {[]string{strings.ToUpper(hash)}, false},
		"a signature's name": {[]string{"sha256-" + strings.Repeat("a", 64) + ".sig"}, false},
	} {
		if got := (&RegistryImage{Tags: tc.tags}).MadeBySless(); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestIsCodeKey(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("0", 64)
	for key, want := range map[string]bool{
		"shop/" + hex + ".tar.gz": true, "s/" + hex + ".tar.gz": true, "shop/" + hex: false, "shop/x/" + hex + ".tar.gz": false,
		hex + ".tar.gz": false, "/" + hex + ".tar.gz": false, "shop/" + hex + "0.tar.gz": false, "sless-cleanup-owner": false,
	} {
		if got := IsCodeKey(key); got != want {
			t.Errorf("%s: got %v", key, got)
		}
		if review := strings.TrimSuffix(key, ".tar.gz") + ".review.json"; IsReviewKey(review) != want && key != "shop/"+hex {
			t.Errorf("%s: got %v", review, !want)
		}
		if IsReviewKey(key) {
			t.Errorf("%s is taken for a review", key)
		}
	}
}
