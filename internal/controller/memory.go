// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/naeel/sless/internal/controller/plan"
)

// memory is what this process remembers of the object store and the registry. The Function controller and the cleaning
// share it.
type memory struct {
	known *knownCache
	// codes remembers what was read from stored code, *codeArchive by key, and largeCodes that of which much is held.
	codes, largeCodes *cache.LRUExpireCache
	// claims is nil when nothing is ever removed.
	claims *claims
}

func newMemory(cleaned bool) *memory {
	m := &memory{
		known: newKnownCache(), codes: cache.NewLRUExpireCache(codesKnown), largeCodes: cache.NewLRUExpireCache(largeCodesKnown),
	}
	if cleaned {
		m.claims = newClaims()
	}
	return m
}

// How much of stored code is remembered. Users choose how large their dependency files are, so that few of the large ones
// are: together they take less than the manager has.
const (
	codesKnown      = 128
	largeCodesKnown = 8
	// smallCode is the most that is held of a code, in bytes, that is not large.
	smallCode     = 256 << 10
	codesKnownFor = time.Hour
)

// rememberCode remembers code of whose files so many bytes are held.
func (m *memory) rememberCode(key string, code *codeArchive, held int) {
	codes := m.codes
	if held > smallCode {
		codes = m.largeCodes
	}
	codes.Add(key, code, codesKnownFor)
}

// rememberedCode returns code that is remembered.
func (m *memory) rememberedCode(key string) (*codeArchive, bool) {
	for _, codes := range []*cache.LRUExpireCache{m.codes, m.largeCodes} {
		if code, ok := codes.Get(key); ok {
			return code.(*codeArchive), true //nolint:forcetypeassert // Nothing else is put there.
		}
	}
	return nil, false
}

// forgetObject forgets what was known of an object that is about to be removed.
func (m *memory) forgetObject(key string) {
	m.known.forget(knownObject, key)
	for _, codes := range []*cache.LRUExpireCache{m.codes, m.largeCodes} {
		for _, remembered := range codes.Keys() {
			if text, ok := remembered.(string); ok && strings.HasPrefix(text, key+" ") {
				codes.Remove(remembered)
			}
		}
	}
}

// Names of claims.

func objectClaim(key string) string { return "object " + key }

func imageClaim(ref string) string { return "image " + plan.ImageName(ref) }
