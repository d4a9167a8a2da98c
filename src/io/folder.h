#pragma once

#include "io/file.h"

namespace fovea {

// A folder that appears whole or not at all. Files go into ".NAME.partial" beside the target; commit() makes them
// durable and puts the new folder in the old one's place. A kill at any moment leaves the old folder or the new one;
// without commit() the partial folder is removed. The files inside must be durable themselves (AtomicFile).
class AtomicFolder {
 public:
  explicit AtomicFolder(const Path& target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const Path& path() const { return partial_; }  // write here
  // `older`, where it is given, becomes the name of the folder that was in its place; else that one is removed.
  void commit(const Path& older = {});

 private:
  Path target_, partial_;
};

// The folder to read. Where the file system cannot exchange two folders in one step, a kill between two renames may
// have left the complete new one under its partial name; this finds it.
Path committed_folder(const Path& target);

}  // namespace fovea
