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
	cronPrefix   = "cron-"
	hostPrefix   = "host-"
	maxLabel     = 63
	// maxCronJob leaves room for the 11 characters that Kubernetes appends for each Job.
	maxCronJob = 52
	hashLength = 8
	// FunctionPort is the port of a function's Service and of its containers.
	FunctionPort = 8080
	// AdminPort is the port of a function's container that serves health and metrics.
	AdminPort = 8081
	// DefaultConcurrency is how many calls the watchdog takes at once when neither the Function nor its runtime says.
	DefaultConcurrency = 100
)

// DeployNamespace returns the namespace in which the workloads of a user namespace run: sless-fn-<namespace>. A name over
// 63 characters is cut and gets a hash, so that two long names never meet.
func DeployNamespace(userNamespace string) string {
	return fit(deployPrefix+userNamespace, maxLabel, userNamespace)
}

// CronJob returns the name of the CronJob of a Trigger, and of the ConfigMap with its event.
func CronJob(trigger string) string {
	return fit(cronPrefix+trigger, maxCronJob, trigger)
}

// HostRoute returns the name of the Ingress or HTTPRoute of a Trigger. They are all in one namespace, so that the name
// always has a hash: ("a-b", "c") and ("a", "b-c") differ.
func HostRoute(namespace, trigger string) string {
	return withHash(hostPrefix+namespace+"-"+trigger, maxLabel, namespace, trigger)
}

// fit returns name, or, when it is too long, its beginning with a hash of what it was made from.
func fit(name string, limit int, parts ...string) string {
	if len(name) <= limit {
		return name
	}
	return withHash(name, limit, parts...)
}

func withHash(name string, limit int, parts ...string) string {
	cut := strings.TrimRight(name[:min(len(name), limit-hashLength-1)], "-")
	return cut + "-" + Hash(parts...)[:hashLength]
}

// TenantNamespace returns the user namespace of a tenant of the gateway's API: sless- and the first 8 bytes of the SHA-256
// of the token's sub in hexadecimal.
func TenantNamespace(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return tenantPrefix + hex.EncodeToString(sum[:tenantBytes])
}

// CodeRepository returns the repository of a Function's images, flat, so that registries with two-level names work.
// registryHost may hold a path.
//
// Names of repositories are ambiguous: ("a-b", "c") and ("a", "b-c") share one, and ("a", "b-deps") shares that of the
// dependencies of "a-b". That does no harm, as long as nothing is concluded from the name of a repository alone: every tag is
// a Key of the namespace and the content, so that none is taken by another; pods run digests; and the image's label
// sless.io/namespace says whose it is.
func CodeRepository(registryHost, namespace, name string) string {
	return fmt.Sprintf("%s/%s%s-%s", registryHost, RepositoryPrefix, namespace, name)
}

// DependencyRepository returns the repository of the dependency images of a namespace. Functions of the namespace with the
// same dependencies share an image. Two namespaces never share it for their dependencies, but one may share it with the code
// of a Function of another: see CodeRepository.
func DependencyRepository(registryHost, namespace string) string {
	return fmt.Sprintf("%s/%s%s-deps", registryHost, RepositoryPrefix, namespace)
}

// BuildJob returns the name of the build Job of a dependency key.
func BuildJob(key string) string {
	return "build-" + key
}

// PreflightJob returns the name of the Job that tries out a revision of a Function's pods. A revision covers the Function's
// UID, so that two Functions never share one.
func PreflightJob(revision string) string {
	return "preflight-" + revision
}

// GitJob returns the name of the Job of a fetch from a git repository.
func GitJob(key string) string {
	return "git-" + key
}

// PublicPath returns the path at which the gateway serves a Function.
func PublicPath(namespace, name string) string {
	return "/fn/" + namespace + "/" + name
}

// FunctionHost returns the host name of a Function below the domain of functions. ("a-b", "c") and ("a", "b-c") have the same
// one, which the older Trigger gets, as it gets any host.
func FunctionHost(namespace, name, domain string) string {
	return fit(name+"-"+namespace, maxLabel, namespace, name) + "." + domain
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

// VirtualHostSuffix ends every VirtualHost.
const VirtualHostSuffix = ".fn.sless.internal"

// VirtualHost returns the host name by which the autoscaler's interceptor knows a Function. Nobody resolves it.
func VirtualHost(namespace, name string) string {
	return name + "." + DeployNamespace(namespace) + VirtualHostSuffix
}
