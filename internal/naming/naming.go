// SPDX-License-Identifier: Apache-2.0

// Package naming computes the names that sless derives from a Function's. Everything here is a pure function, so that the
// controllers, the gateway and the tests agree.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// RepositoryPrefix begins the name of every repository that sless fills.
	RepositoryPrefix = "sless-"

	deployPrefix = "sless-fn-"
	tenantPrefix = "sless-"
	tenantBytes  = 8
	maxLabel     = 63
	hashLength   = 8
	// virtualDomain ends the hosts of Functions that scale. It is in no DNS.
	virtualDomain = ".fn.sless.internal"
	// FunctionPort is the port of a function's Service and of its containers.
	FunctionPort = 8080
	// AdminPort is the port of a function's container that serves health and metrics.
	AdminPort = 8081
)

// DeployNamespace returns the namespace in which the workloads of a user namespace run: sless-fn-<namespace>. A name over
// 63 characters is cut and gets a hash, so that two long names never meet.
func DeployNamespace(userNamespace string) string {
	name := deployPrefix + userNamespace
	if len(name) <= maxLabel {
		return name
	}
	cut := strings.TrimRight(name[:maxLabel-hashLength-1], "-")
	return cut + "-" + Hash(userNamespace)[:hashLength]
}

// TenantNamespace returns the user namespace of a tenant of the gateway's API: sless- and the first 8 bytes of the SHA-256
// of the token's sub in hexadecimal.
func TenantNamespace(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return tenantPrefix + hex.EncodeToString(sum[:tenantBytes])
}

// CodeRepository returns the repository of a Function's images, flat, so that registries with two-level names work.
// registryHost may hold a path.
func CodeRepository(registryHost, namespace, name string) string {
	return fmt.Sprintf("%s/%s%s-%s", registryHost, RepositoryPrefix, namespace, name)
}

// DependencyRepository returns the repository of the dependency images of a namespace. It is one per namespace, so that
// Functions with the same dependencies share an image, and never one for two namespaces.
func DependencyRepository(registryHost, namespace string) string {
	return fmt.Sprintf("%s/%s%s-deps", registryHost, RepositoryPrefix, namespace)
}

// BuildJob returns the name of the build Job of a dependency key.
func BuildJob(key string) string {
	return "build-" + key
}

// PublicPath returns the path at which the gateway serves a Function.
func PublicPath(namespace, name string) string {
	return "/fn/" + namespace + "/" + name
}

// VirtualHost returns the host by which KEDA's interceptor knows a Function.
func VirtualHost(namespace, name string) string {
	return name + "." + DeployNamespace(namespace) + virtualDomain
}

// Hash returns the SHA-256 of its parts in hexadecimal. The parts are told apart: ("ab", "c") and ("a", "bc") differ.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p) // A hash never fails.
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Key is Hash cut to 32 characters, short enough for a label, a tag and the name of a Job.
func Key(parts ...string) string {
	return Hash(parts...)[:32]
}
