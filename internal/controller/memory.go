// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/naeel/sless/internal/controller/plan"
)

// memory is what this process remembers of the object store and the registry. The Function controller and the cleaning
// share it.
type memory struct {
	known *knownCache
	// codes remembers what was read from stored code, *codeArchive by key.
	codes *cache.LRUExpireCache
	// claims is nil when nothing is ever removed.
	claims *claims
}

func newMemory(cleaned bool) *memory {
	m := &memory{known: newKnownCache(), codes: cache.NewLRUExpireCache(codesKnown)}
	if cleaned {
		m.claims = newClaims()
	}
	return m
}

// forgetObject forgets what was known of an object that is about to be removed.
func (m *memory) forgetObject(key string) {
	m.known.forget(knownObject, key)
	for _, remembered := range m.codes.Keys() {
		if text, ok := remembered.(string); ok && strings.HasPrefix(text, key+" ") {
			m.codes.Remove(remembered)
		}
	}
}

// Names of claims.

func objectClaim(key string) string { return "object " + key }

func imageClaim(ref string) string { return "image " + plan.ImageName(ref) }
