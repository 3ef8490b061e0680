// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// What a knownCache remembers.
const (
	knownObject = "object"
	knownImage  = "image"
	knownBase   = "base"
	// knownAttempts is how often a build or preflight was tried again.
	knownAttempts = "attempts"
	// knownAsked is what a Function asked for that was done, by build and Function.
	knownAsked = "asked"
)

const (
	knownEntries = 8192
	// knownFor is how long an image or an object is taken to exist without asking again.
	knownFor = 10 * time.Minute
	// baseKnownFor is how long a runtime image's tag is taken to mean the same digest.
	baseKnownFor = time.Minute
	// attemptsKnownFor is longer than the longest pause between two attempts.
	attemptsKnownFor = time.Hour
)

// knownCache remembers what the registry and the object store said, so that a pass over an unchanged Function asks
// neither. All keys are content addresses except those of runtime images, which are forgotten sooner.
type knownCache struct {
	entries *cache.LRUExpireCache
}

func newKnownCache() *knownCache {
	return &knownCache{entries: cache.NewLRUExpireCache(knownEntries)}
}

func (k *knownCache) put(kind, key, value string) {
	ttl := knownFor
	switch kind {
	case knownBase:
		ttl = baseKnownFor
	case knownAttempts, knownAsked:
		ttl = attemptsKnownFor
	}
	k.entries.Add(kind+"/"+key, value, ttl)
}

func (k *knownCache) get(kind, key string) (string, bool) {
	value, ok := k.entries.Get(kind + "/" + key)
	if !ok {
		return "", false
	}
	text, ok := value.(string)
	return text, ok
}

func (k *knownCache) forget(kind, key string) { k.entries.Remove(kind + "/" + key) }

func (k *knownCache) has(kind, key string) bool {
	_, ok := k.get(kind, key)
	return ok
}

// attempts is how often a build or preflight was tried again. A restart of the manager forgets it, which costs one early
// attempt.
func (k *knownCache) attempts(key string) int {
	text, _ := k.get(knownAttempts, key)
	attempts, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return attempts
}

// attempted counts one more attempt, and returns how many there were.
func (k *knownCache) attempted(key string) int {
	attempts := k.attempts(key) + 1
	k.put(knownAttempts, key, strconv.Itoa(attempts))
	return attempts
}
